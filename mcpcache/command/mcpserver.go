package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/probe"
)

// mcpServer is a server in a file of clients.
type mcpServer struct {
	Type    string               `json:"type"`
	Command *string              `json:"command"`
	Args    []jsonText           `json:"args"`
	Env     map[string]*jsonText `json:"env"` // nil: the program is not to have it
	Cwd     string               `json:"cwd"`
	URL     *string              `json:"url"`
	Headers map[string]string    `json:"headers"`
}

// jsonText is a text, a number or a truth value, as a text.
type jsonText string

// UnmarshalJSON implements [json.Unmarshaler].
func (t *jsonText) UnmarshalJSON(value []byte) error {
	switch value[0] {
	case '"':
		return json.Unmarshal(value, (*string)(t))
	case '[', '{':
		return &json.UnmarshalTypeError{Value: map[byte]string{'[': "array", '{': "object"}[value[0]]}
	}
	*t = jsonText(value)
	return nil
}

// What the type of a server may be.
var typesOfCommands, typesOfURLs = []string{"", "stdio"}, []string{"", "http", "streamable-http", "streamableHttp"}

// leftOut says what a server is that is not used, in a few words; "" if it is.
func leftOut(fields []member) string {
	for _, field := range fields {
		switch field.name + ": " + string(field.value) {
		case "disabled: true", "enabled: false":
			return "disabled"
		case `type: "sse"`:
			return "of type sse, the transport of 2024-11-05"
		}
	}
	return ""
}

// readMCPServer reads the fields of a server, and says which of them mean nothing here. Unlike
// package json it takes names as they are written.
func readMCPServer(fields []member) (m *mcpServer, unused []string, err error) {
	known := make(map[string]json.RawMessage)
	for _, field := range fields {
		switch field.name {
		case "type", "command", "args", "env", "cwd", "url", "headers":
			known[field.name] = field.value
		case "disabled", "enabled":
		default:
			unused = append(unused, field.name)
		}
	}
	object, err := json.Marshal(known)
	if err != nil {
		return nil, nil, err
	}
	m = new(mcpServer)
	err = json.Unmarshal(object, m)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return nil, nil, fmt.Errorf("%s cannot be a JSON %s", wrong.Field, wrong.Value) // which repeats no value
	}
	for _, name := range slices.Sorted(maps.Keys(m.Headers)) {
		if ofTheProtocol(name) {
			unused = append(unused, "headers."+name)
		}
	}
	if err == nil && m.Command == nil && m.URL == nil {
		err = errors.New("it has neither a command nor a url")
		if len(unused) > 0 {
			err = fmt.Errorf("%w, but %s", err, strings.Join(unused, ", "))
		}
	}
	return m, unused, err
}

// ofTheProtocol reports whether a header is one that the protocol demands of each client. Some
// files have them.
func ofTheProtocol(header string) bool {
	name := http.CanonicalHeaderKey(header)
	return name == "Accept" || name == "Content-Type"
}

// served returns what is to be served.
func (m *mcpServer) served(v variables) (served, error) {
	switch {
	case m.Command != nil && m.URL != nil:
		return served{}, errors.New("it has both a command and a url")
	case m.Command != nil && !slices.Contains(typesOfCommands, m.Type), m.URL != nil && !slices.Contains(typesOfURLs, m.Type):
		return served{}, fmt.Errorf("type %q does not fit: it is stdio for a command, and http for a url", m.Type)
	case m.Command != nil:
		return m.program(v)
	}
	return m.atURL(v)
}

// program returns a server that is a program.
func (m *mcpServer) program(v variables) (s served, err error) {
	if *m.Command == "" {
		return s, errors.New("its command is empty")
	}
	if len(m.Headers) > 0 {
		return s, errors.New("headers are for a url: a program is sent none")
	}
	text := func(what, value string, as func(string) (string, error)) string {
		written, failed := as(value)
		if failed != nil && err == nil {
			err = fmt.Errorf("%s: %w", what, failed)
		}
		return written
	}
	s.command = []string{text("command", *m.Command, v.placeholders)}
	for _, arg := range m.Args {
		s.command = append(s.command, text("args", string(arg), v.placeholders))
	}
	s.dir = text("cwd", m.Cwd, v.placeholders)
	s.env = make(map[string]string, len(m.Env))
	for _, name := range slices.Sorted(maps.Keys(m.Env)) {
		if value := m.Env[name]; value != nil {
			s.env[name] = text("env "+name, string(*value), v.secret)
		}
	}
	if err != nil {
		return s, err
	}
	return s, s.runHere()
}

// atURL returns a server at a URL.
func (m *mcpServer) atURL(v variables) (s served, err error) {
	if strings.Contains(*m.URL, "${") {
		return s, errors.New("url: a variable cannot be a part of it")
	}
	var headers []string
	for _, name := range slices.Sorted(maps.Keys(m.Headers)) {
		if ofTheProtocol(name) {
			continue
		}
		value, err := v.secret(m.Headers[name])
		if err != nil {
			return s, fmt.Errorf("headers %s: %w", name, err)
		}
		headers = append(headers, name+": "+value)
	}
	if s.header, err = probe.Headers(headers); err != nil {
		return s, err
	}
	s.url, err = upstreamAt(*m.URL)
	return s, err
}

// variables says what becomes of ${NAME}: if it is only written down, the variable need not have
// a value yet.
type variables struct{ written bool }

var (
	reference    = regexp.MustCompile(`\$\{([^{}]*)\}`)
	variableName = regexp.MustCompile(`^(?:env:)?([A-Za-z_][A-Za-z0-9_]*)$`)
)

// placeholders returns a text of a file with Caddy's placeholders in the place of variables, which
// have to have a value.
func (v variables) placeholders(text string) (string, error) { return v.replace(text, false) }

// secret returns a text as it is written down, or else with the values of its variables.
func (v variables) secret(text string) (string, error) {
	text, err := v.replace(text, true)
	if err != nil || v.written {
		return text, err
	}
	return caddy.NewReplacer().ReplaceAll(text, ""), nil
}

func (v variables) replace(text string, empty bool) (string, error) {
	var out strings.Builder
	rest := 0
	for _, at := range reference.FindAllStringSubmatchIndex(text, -1) {
		name := variableName.FindStringSubmatch(text[at[2]:at[3]])
		if name == nil {
			return "", fmt.Errorf("%s is not known: a variable of the environment is ${NAME}", text[at[0]:at[1]])
		}
		value, set := os.LookupEnv(name[1])
		switch {
		case !v.written && !set:
			return "", fmt.Errorf("the variable %s of the environment is not set", name[1])
		case !v.written && !empty && value == "":
			return "", fmt.Errorf("the variable %s of the environment is empty", name[1])
		case strings.HasSuffix(text[:at[0]], `\`):
			return "", fmt.Errorf("a backslash cannot stand before %s", text[at[0]:at[1]])
		}
		out.WriteString(verbatim(text[rest:at[0]]) + "{env." + name[1] + "}")
		rest = at[1]
	}
	out.WriteString(verbatim(text[rest:]))
	return out.String(), nil
}
