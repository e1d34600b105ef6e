package upstreamconfig

import (
	"encoding/json"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/identity"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/placeholder"
)

// escapedBraces replaces escaped braces, which begin and end no placeholder.
var escapedBraces = strings.NewReplacer(`\{`, "_", `\}`, "_")

var (
	// steadyPlaceholder matches placeholders that say nothing about the caller. They are values
	// of the process, of an answer or of the picked replica, values that are new each time, and
	// the method and URI of a list. The query counts itself, and every proxy passes it on. It
	// also matches {2}, which stands in regular expressions.
	steadyPlaceholder = regexp.MustCompile(`^(?:env|system|file|time)\.|^[0-9,]+$|` +
		`^http\.(?:reverse_proxy|response|error|mcp_cache|shutting_down|time_until_shutdown)\b|` +
		`^http\.request\.(?:uuid|duration|duration_ms|body|body_base64|method|orig_method|remote\.port)$|` +
		`^http\.request\.(?:uri_escaped|uri|uri\.(?:path\b.*|query|query_escaped|prefixed_query))$`)
	// countedPlaceholder matches values by which [identity.Rules] tells callers apart anyway,
	// besides headers.
	countedPlaceholder = regexp.MustCompile(`^http\.request\.(?:cookie|tls\.client|uri\.query)\.|^http\.request\.orig_uri\b|^http\.auth\.user\.id$`)
	// hostPlaceholder matches the Host of a request, which counts itself.
	hostPlaceholder = regexp.MustCompile(`^http\.request\.(?:host|hostport)$`)
	// passedOnPlaceholder matches the values of a request that every proxy passes on in harmless
	// headers, such as X-Real-IP and X-Forwarded-Proto.
	passedOnPlaceholder = regexp.MustCompile(
		`^http\.request\.(?:host|hostport|port|scheme|proto|proto_name|(?:local|remote|header)\b.*)$|^http\.vars\.client_ip$`)
)

// Telling returns the names of the placeholders by whose values the server may tell callers
// apart, in order. It leaves out values that count anyway, and that the handler sends in a
// header: the header counts as the credential that it is, unless partition names the placeholder.
//
// harmless are the headers that tell no caller from another, and partition are the values of the
// option of that name. Telling does not look at matchers in a subroute that use no placeholder.
func (c Config) Telling(harmless identity.Headers, partition []string) []string {
	var config any
	if json.Unmarshal(c.raw, &config) != nil {
		return nil
	}
	t := tellers{harmless, partition, make(map[string]bool)}
	t.walk(config, "", "")
	return slices.Sorted(maps.Keys(t.names))
}

// tellers collects the names for [Config.Telling].
type tellers struct {
	harmless  identity.Headers
	partition []string
	names     map[string]bool
}

// walk looks into a value. The value stands below key, and key below above.
func (t *tellers) walk(value any, above, key string) {
	switch v := value.(type) {
	case string:
		t.look(v, "")
	case []any:
		for _, element := range v {
			t.walk(element, above, key)
		}
	case map[string]any:
		for name, inner := range v {
			t.look(name, "")
			switch {
			case above == "request" && (key == "set" || key == "add" || key == "replace"):
				t.header(inner, http.CanonicalHeaderKey(name))
			case name == "response" || name == "health_checks": // they are not part of a caller's request
			case name == "transport" && runsProgram(inner): // a program receives no value of a request
			default:
				t.walk(inner, key, name)
			}
		}
	}
}

// header looks into the values that the handler gives a request header.
func (t *tellers) header(value any, name string) {
	switch v := value.(type) {
	case string:
		t.look(v, name)
	case []any:
		for _, element := range v {
			t.header(element, name)
		}
	case map[string]any:
		for _, inner := range v {
			t.header(inner, name)
		}
	}
}

// look collects the placeholders of a text. header is the request header with that text, or "".
func (t *tellers) look(text, header string) {
	credential := header != "" && header != "Host" // a Host may be of another server
	text = escapedBraces.Replace(text)
	for _, name := range placeholder.Names(text) {
		switch {
		case steadyPlaceholder.MatchString(name), t.passedOn(name, header):
		case credential && t.counted(name) && !Named(name, t.partition):
		case name == "http.request.remote":
			t.names["http.request.remote.host"] = true // its port is of the connection
		default:
			t.names[name] = true
		}
	}
}

// counted reports whether the value of a placeholder tells callers apart anyway.
func (t *tellers) counted(name string) bool {
	if header, ok := strings.CutPrefix(name, "http.request.header."); ok {
		return !t.harmless.Has(http.CanonicalHeaderKey(header))
	}
	return countedPlaceholder.MatchString(name)
}

// Named reports whether the values of the option partition use the placeholder of that name.
func Named(name string, partition []string) bool {
	return slices.ContainsFunc(partition, func(text string) bool { return strings.Contains(text, "{"+name+"}") })
}

// passedOn reports whether a header with that placeholder counts no more than it
// would if the client had sent it.
func (t *tellers) passedOn(name, header string) bool {
	switch {
	case header == "Host": // the client's counts itself
		return hostPlaceholder.MatchString(name)
	case t.harmless[header]: // the operator's word
		return true
	}
	return t.harmless.Has(header) && passedOnPlaceholder.MatchString(name)
}
