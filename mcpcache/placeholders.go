package mcpcache

import (
	"encoding/json"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/identity"
)

// placeholderPattern matches a placeholder, of nested ones the innermost.
var placeholderPattern = regexp.MustCompile(`\{([^{}"\n]+)\}`)

// escapedBraces takes braces away that belong to no placeholder.
var escapedBraces = strings.NewReplacer(`\{`, "_", `\}`, "_")

// placeholdersIn returns the names of the placeholders that a configuration may
// use, each once.
func placeholdersIn(raw json.RawMessage) []string {
	all := placeholderPattern.FindAllSubmatch(raw, -1)
	names := make([]string, 0, len(all))
	for _, found := range all {
		names = append(names, string(found[1]))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

var (
	// steadyPlaceholder matches placeholders that say nothing of who calls: the
	// process's, those of an answer or of the replica that is picked, what is new
	// each time, and the method and URI of a list, of which the query counts itself
	// and is passed on by every proxy; also {2} in a regular expression.
	steadyPlaceholder = regexp.MustCompile(`^(?:env|system|file|time)\.|^[0-9,]+$|` +
		`^http\.(?:reverse_proxy|response|error|mcp_cache|shutting_down|time_until_shutdown)\b|` +
		`^http\.request\.(?:uuid|duration|duration_ms|body|body_base64|method|orig_method|remote\.port)$|` +
		`^http\.request\.(?:uri_escaped|uri|uri\.(?:path\b.*|query|query_escaped|prefixed_query))$`)
	// countedPlaceholder matches placeholders made of what [identity.Rules] counts
	// anyway, besides headers.
	countedPlaceholder = regexp.MustCompile(`^http\.request\.(?:cookie|tls\.client|uri\.query)\.|^http\.request\.orig_uri\b|^http\.auth\.user\.id$`)
	// hostPlaceholder matches the Host of a request, which counts itself.
	hostPlaceholder = regexp.MustCompile(`^http\.request\.(?:host|hostport)$`)
	// passedOnPlaceholder matches what every proxy passes on of a request, in headers
	// that count as harmless: X-Real-IP, X-Forwarded-Proto and the like.
	passedOnPlaceholder = regexp.MustCompile(
		`^http\.request\.(?:host|hostport|port|scheme|proto|proto_name|(?:local|remote|header)\b.*)$|^http\.vars\.client_ip$`)
)

// tellers collects the placeholders by which an upstream may tell callers apart.
type tellers struct {
	harmless  identity.Headers
	partition []string
	names     map[string]bool
}

// tellingPlaceholders returns the names of the placeholders in an upstream's
// configuration by whose values the server may tell callers apart, in order. What
// counts anyway, and is sent in a header, is left out as the credential that it is,
// unless it is named in partition. Matchers inside a subroute are not looked at, if
// they use no placeholder.
func tellingPlaceholders(raw json.RawMessage, harmless identity.Headers, partition []string) []string {
	var config any
	if json.Unmarshal(raw, &config) != nil {
		return nil // loading the upstream says what is wrong
	}
	t := tellers{harmless, partition, make(map[string]bool)}
	t.walk(config, "", "")
	return slices.Sorted(maps.Keys(t.names))
}

// walk looks into a value that stands below two keys.
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
			case name == "response" || name == "health_checks": // the server is not sent these with a caller's request
			case name == "transport" && runsProgram(inner): // which is given none of a request's
			default:
				t.walk(inner, key, name)
			}
		}
	}
}

// runsProgram reports whether a transport is that of a program: its texts are JSON, or anything.
func runsProgram(transport any) bool {
	v, _ := transport.(map[string]any)
	return v["protocol"] == "stdio"
}

// header looks into what a request header is set to.
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

// look notes the placeholders of a text; header is the one that it is put in, "" if
// it is none.
func (t *tellers) look(text, header string) {
	credential := header != "" && header != "Host" // a Host may be of another server
	text = escapedBraces.Replace(text)
	for _, found := range placeholderPattern.FindAllStringSubmatch(text, -1) {
		switch name := found[1]; {
		case steadyPlaceholder.MatchString(name), t.passedOn(name, header):
		case credential && t.counted(name) && !named(name, t.partition):
		case name == "http.request.remote":
			t.names["http.request.remote.host"] = true // its port is of the connection
		default:
			t.names[name] = true
		}
	}
}

// counted reports whether what a placeholder is made of tells callers apart anyway.
func (t *tellers) counted(name string) bool {
	if header, ok := strings.CutPrefix(name, "http.request.header."); ok {
		return !t.harmless.Has(http.CanonicalHeaderKey(header))
	}
	return countedPlaceholder.MatchString(name)
}

// named reports whether the texts of the option partition use a placeholder.
func named(name string, partition []string) bool {
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

// keepApart has callers be told apart by the placeholders that the upstream uses. The lists
// that the feed is given without their values are nobody's. If the operator says that callers
// share lists, they are for callers without these values.
func (h *Handler) keepApart(telling []string) {
	if len(telling) == 0 {
		return
	}
	feed := &h.settings.backend.Feed
	feed.FeedOnly = true
	const harmless = "if not, and if they are put in headers, name these headers after harmless"
	if slices.ContainsFunc(telling, func(name string) bool { return !named(name, h.settings.partition) }) {
		h.logger.Info("the upstream is sent values of the request: lists are kept for each of them, also public ones; "+
			"that is right if the server goes by them; "+harmless, zap.Strings("placeholders", telling))
	}
}
