package identity

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client"
)

// appendAsked appends what a request asks the server for besides its message, where it
// differs from the feeds' requests. Its Host and all credentials are left out. The names
// are those of the headers that count and ask for something.
func (rules *Rules) appendAsked(dst []byte, r *http.Request, names []string, placeholders Placeholders) []byte {
	if placeholders != nil {
		for _, placeholder := range rules.Partition {
			if value := placeholders.ReplaceAll(placeholder, ""); value != rules.FeedValues[placeholder] {
				dst = appendField(appendField(dst, "partition", placeholder), "value", value)
			}
		}
	}
	if rules.MessagesOnly {
		return dst
	}
	if r.URL.RawQuery != "" {
		dst = appendField(dst, "query", r.URL.RawQuery)
	}
	if placeholders != nil {
		if uri, ok := rules.rewritten(r, placeholders); ok {
			dst = appendField(dst, "original", uri)
		}
		for _, name := range rules.Telling {
			if value, _ := placeholders.GetString(name); value != rules.FeedValues[name] {
				dst = appendField(appendField(dst, "placeholder", name), "value", value)
			}
		}
	}
	return rules.appendHeaders(dst, r.Header, names)
}

// appendWho appends what tells callers apart who ask for the same. The names are those of the
// headers that count and say who asks.
func (rules *Rules) appendWho(dst []byte, r *http.Request, names []string, placeholders Placeholders) []byte {
	dst = rules.appendHeaders(dst, r.Header, names)
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		dst = appendField(dst, "certificate", string(r.TLS.PeerCertificates[0].Raw))
	}
	if rules.MessagesOnly && r.URL.RawQuery != "" {
		dst = appendField(dst, "query", r.URL.RawQuery)
	}
	if placeholders == nil {
		return dst
	}
	if user, ok := placeholders.GetString(userPlaceholder); ok && user != "" {
		dst = appendField(dst, "user", user)
	}
	for _, name := range rules.Telling {
		// Also without a value: the feed's lists are nobody's, so all need their own.
		value, known := placeholders.GetString(name)
		dst = appendField(appendField(dst, "telling", name), strconv.FormatBool(known), value)
	}
	for _, placeholder := range rules.Partition {
		// Also with the feed's value: the option says that callers are told apart by it.
		if value := placeholders.ReplaceAll(placeholder, ""); value != "" && value == rules.FeedValues[placeholder] {
			dst = appendField(appendField(dst, "partition", placeholder), "value", value)
		}
	}
	return dst
}

// Request returns what a request asks the server for besides its message, so that the feed
// can ask the same without the caller's credentials. It returns false if the feed cannot:
// the request has a value that only handlers in front of the cache know, or one that may be a
// credential.
func (rules *Rules) Request(r *http.Request, placeholders Placeholders) (asked client.Request, ok bool) {
	if rules.MessagesOnly {
		return client.Request{}, false
	}
	asked = client.Request{Query: r.URL.RawQuery, Header: make(http.Header)}
	if rules.atAnotherHost(r) {
		asked.Host = r.Host
	}
	for _, name := range rules.count(names{}, r.Header).asked {
		if !strings.HasPrefix(name, repeated) && !rules.isNamed("http.request.header."+name) {
			return client.Request{}, false
		}
		asked.Header[name] = slices.Clone(r.Header[name])
	}
	if mayHoldCredential(r.URL.RawQuery) {
		return client.Request{}, false
	}
	if placeholders == nil {
		return asked, true
	}
	if _, is := rules.rewritten(r, placeholders); is {
		return client.Request{}, false
	}
	for _, text := range rules.Partition {
		if placeholders.ReplaceAll(text, "") == rules.FeedValues[text] {
			continue
		}
		for _, found := range placeholderPattern.FindAllStringSubmatch(text, -1) {
			if !repeat(&asked, r, found[1]) {
				return client.Request{}, false
			}
		}
	}
	for _, name := range rules.Telling {
		value, _ := placeholders.GetString(name)
		if value != rules.FeedValues[name] && !repeat(&asked, r, name) {
			return client.Request{}, false
		}
	}
	return asked, true
}

// repeated is how headers begin that choose what an MCP server lists, such as
// X-MCP-Toolsets and X-MCP-Readonly (github-mcp-server). Others may be credentials: the feed
// repeats them only if the option partition names them.
const repeated = "X-Mcp-"

// isNamed reports whether the option partition has a placeholder.
func (rules *Rules) isNamed(placeholder string) bool {
	return slices.ContainsFunc(rules.Partition, func(text string) bool {
		return strings.Contains(strings.ToLower(text), "{"+strings.ToLower(placeholder)+"}")
	})
}

// queryWords are in the names of parameters that may be credentials.
var queryWords = []string{
	"key", "token", "auth", "secret", "pass", "pwd", "sig", "cred", "code", "session", "sid", "jwt", "user", "login",
	"email", "account", "access", "pat", "otp", "profile",
}

// mayHoldCredential reports whether a query may have a credential: by the name of a parameter,
// or by a token that is a JWT.
func mayHoldCredential(query string) bool {
	if query == "" {
		return false
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return true // nobody knows what it has
	}
	for name, of := range values {
		name = strings.ToLower(name)
		if slices.ContainsFunc(queryWords, func(word string) bool { return strings.Contains(name, word) }) {
			return true
		}
		for _, value := range of {
			if _, is := expiry(value); is {
				return true
			}
		}
	}
	return false
}

// placeholderPattern matches a placeholder in a text of the option partition.
var placeholderPattern = regexp.MustCompile(`\{([^{}]+)\}`)

// repeat makes the value of a placeholder in a request of the feed's the one that it has in
// r. It returns false if it cannot, or if that would send a credential.
func repeat(asked *client.Request, r *http.Request, placeholder string) bool {
	name, isHeader := strings.CutPrefix(placeholder, "http.request.header.")
	switch {
	case isHeader && !saysWho(http.CanonicalHeaderKey(name)):
		name = http.CanonicalHeaderKey(name)
		asked.Header[name] = slices.Clone(r.Header[name])
	case placeholder == "http.request.hostport", placeholder == "http.request.host", strings.HasPrefix(placeholder, "http.request.host.labels."):
		asked.Host = r.Host
	case placeholder == "http.request.uri.query", strings.HasPrefix(placeholder, "http.request.uri.query."):
	default:
		return false
	}
	return true
}

// rewritten returns the URI of a request from before it was rewritten, if the server is
// sent that and it differs.
func (rules *Rules) rewritten(r *http.Request, placeholders Placeholders) (string, bool) {
	if !rules.Original {
		return "", false
	}
	uri, ok := placeholders.GetString(originalPlaceholder)
	return uri, ok && uri != r.RequestURI
}

// names has the names of the headers by which a server may tell callers apart. Both slices are sorted.
type names struct {
	asked []string // headers that say what a caller asks for
	who   []string // headers that identify the caller
}

func (n names) with(name string, who bool) names {
	if who {
		n.who = append(n.who, name)
	} else {
		n.asked = append(n.asked, name)
	}
	return n
}

func (n names) sort() {
	slices.Sort(n.asked)
	slices.Sort(n.who)
}

// count adds the names of the headers that are not known to be harmless, and returns the names sorted.
func (rules *Rules) count(n names, header http.Header) names {
	for name := range header {
		if !rules.Harmless.Has(name) {
			n = n.with(name, rules.MessagesOnly || saysWho(name))
		}
	}
	n.sort()
	return n
}

// appendHeaders appends what counts of the values of those headers.
func (rules *Rules) appendHeaders(dst []byte, header http.Header, names []string) []byte {
	for _, name := range names {
		for _, value := range header[name] {
			if rest, counts := rules.Harmless.Rest(name, value); counts {
				dst = appendField(dst, name, rest)
			}
		}
	}
	return dst
}

// whoWords are in the names of headers by which handlers in front say who a caller is, such as
// Remote-Groups and X-Authentik-Email, or that name a session.
var whoWords = []string{"session", "remote-", "auth", "user", "email", "group", "role", "login", "tailscale-"}

// saysWho reports whether a header says who a caller is or in which session, not what is
// asked for.
func saysWho(name string) bool {
	if name == "User-Agent" {
		return false
	}
	return slices.Contains(credentials, name) || hasWord(name, credentialWords, whoWords)
}

// Difference is what of a request makes it ask for something else than the feed's requests.
type Difference string

// The differences, in the order in which they are looked for.
const (
	Header    Difference = "header"
	Query     Difference = "query"
	Host      Difference = "host"
	Partition Difference = "partition"
)

// parameters returns the names of a query's parameters, sorted, with "…" for those that have no value: a key may
// stand there alone.
func parameters(query url.Values) []string {
	names := make([]string, 0, len(query))
	for name, values := range query {
		if strings.Join(values, "") == "" {
			name = "…"
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Difference returns the first difference of a request that asks for something else than the
// feed's, with the name of the header, the names of the query's parameters, or the Host.
func (rules *Rules) Difference(r *http.Request, placeholders Placeholders) (d Difference, name string) {
	if !rules.MessagesOnly {
		for _, name := range rules.count(names{}, r.Header).asked {
			if len(rules.appendHeaders(nil, r.Header, []string{name})) > 0 {
				return Header, name
			}
		}
		if r.URL.RawQuery != "" {
			return Query, strings.Join(parameters(r.URL.Query()), ", ")
		}
	}
	if rules.atAnotherHost(r) {
		return Host, r.Host
	}
	return Partition, ""
}
