package probe

import (
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// Report is what was found. Its texts are printable and short.
type Report struct {
	// URL is that of the endpoint, completed.
	URL string `json:"url"`
	// Usable says that the server gave at least one list, or has none to give.
	Usable bool `json:"usable"`
	// Trouble is why the server cannot be used, if it cannot.
	Trouble *Trouble `json:"trouble,omitempty"`
	// Server is what the server calls itself.
	Server string `json:"server,omitempty"`
	// Revisions are those that the server speaks, newest first.
	Revisions []string `json:"revisions"`
	Access    Access   `json:"access"`
	// Connections is how many connections were opened to ask all that.
	Connections int `json:"connections"`
	// Eras are what was found in each era that the server speaks.
	Eras []*Era `json:"eras"`
	// FailedEras are those that the server may speak, but fails in.
	FailedEras []FailedEra `json:"failed_eras,omitempty"`
	// Closed says that the server closed the connection at server/discover, while it
	// answers in the legacy era: the modern one is not offered.
	Closed bool `json:"closed_at_discover,omitempty"`
	// RedirectsTo is the URL with a slash more, or less, at its end to which the server
	// redirects requests.
	RedirectsTo string `json:"redirects_to,omitempty"`
	// Deviations are what the server writes that neither JSON-RPC nor MCP has.
	Deviations []string `json:"deviations,omitempty"`
	// Coding is the content coding in which it answers though nobody has asked for one.
	Coding string `json:"coding,omitempty"`
	// Findings are what follows from it.
	Findings []Finding `json:"findings"`
	// Caddyfile is what to put in front of the server; "" if it cannot be used.
	Caddyfile string `json:"caddyfile,omitempty"`
	// Cut says that time ran out before everything had been asked.
	Cut bool `json:"cut_short,omitempty"`
}

// Access is whom the server gives its lists.
type Access struct {
	// Callers is how many callers asked, each with other headers.
	Callers int `json:"callers"`
	// Credentials says that the first caller sent headers of its own.
	Credentials bool `json:"credentials"`
	// Needed says that the server refused a caller without them.
	Needed bool `json:"credentials_needed"`
	// Second is why the second caller got nothing, if so.
	Second string `json:"second_caller_failure,omitempty"`
	// header is the name of the first caller's credential.
	header string
	// bearer says that it is a bearer token.
	bearer bool
}

// Era is what was found in one era.
type Era struct {
	Era      string `json:"era"`
	Revision string `json:"revision"`
	// Sessions says that the server opens sessions.
	Sessions bool `json:"sessions"`
	// OneSession says that the server takes one session at a time.
	OneSession bool `json:"one_session,omitempty"`
	// KeepsOut says that the feed of a cache would keep that one from clients.
	KeepsOut bool `json:"feed_keeps_clients_out,omitempty"`
	// Acknowledgement is how notifications/initialized is answered, if not with 202.
	Acknowledgement string `json:"acknowledgement,omitempty"`
	// ListChanged are the kinds whose changes the server announces.
	ListChanged []string `json:"list_changed"`
	// Stream is what became of the attempt to listen for them.
	Stream Stream `json:"stream"`
	// StreamType is the content type of what came instead of a stream.
	StreamType string  `json:"stream_type,omitempty"`
	Lists      []*List `json:"lists"`
	// NotOffered are the kinds of which there is no list, as the server says.
	NotOffered []string `json:"not_offered,omitempty"`
	// OfferedToOthers are the capabilities that the server offers only to clients that
	// show some of their own.
	OfferedToOthers []string `json:"offered_to_others,omitempty"`

	revision revision.Revision
	offered  map[string]bool // capabilities
}

// List is what was found about one list, or server/discover.
type List struct {
	Kind  string `json:"kind"`
	Items int    `json:"items"`
	Pages int    `json:"pages"`
	// Bytes is the size of the whole list, Tokens about what a model pays for
	// it: a fourth of that.
	Bytes   int64 `json:"bytes"`
	Tokens  int64 `json:"tokens_about"`
	Largest *Item `json:"largest,omitempty"`
	// TTL is ttlMs, the shortest of all pages; nil when absent.
	TTL *int64 `json:"ttl_ms"`
	// Scope is cacheScope; "" when absent.
	Scope string `json:"cache_scope"`
	// FirstMS and AgainMS are how long the list took, in milliseconds.
	FirstMS float64 `json:"first_ms"`
	AgainMS float64 `json:"again_ms"`
	// Again, Capabilities, Session, Caller, Anonymous and OtherEra compare with the
	// same caller asking again, a client with other capabilities, another session, a
	// second caller, one without headers, and a client of the other era. They are nil
	// where that was not asked; OtherEra also in the second era, for a list that the
	// first one has too.
	Again        *Comparison `json:"again,omitempty"`
	Capabilities *Comparison `json:"other_capabilities,omitempty"`
	Session      *Comparison `json:"other_session,omitempty"`
	Caller       *Comparison `json:"other_caller,omitempty"`
	Anonymous    *Comparison `json:"without_headers,omitempty"`
	OtherEra     *Comparison `json:"other_era,omitempty"`
	// LongNames and OddNames are names of tools that model providers refuse:
	// longer than 64 characters, or with others than letters, digits, _ and -.
	LongNames *Names `json:"long_names,omitempty"`
	OddNames  *Names `json:"odd_names,omitempty"`
	// Repeated are the first few names that more than one item has.
	Repeated []string `json:"repeated_names,omitempty"`
	// EmptyCursor says that the last page has an empty cursor.
	EmptyCursor bool `json:"empty_cursor,omitempty"`
	// Unoffered says that there is a list though its capability is not offered.
	Unoffered bool `json:"unoffered,omitempty"`
	// Failure is why there is no list.
	Failure string `json:"failure,omitempty"`

	kind revision.Kind
	body *message.Body
}

// Item is one item of a list.
type Item struct {
	Name  string `json:"name"`
	Bytes int    `json:"bytes"`
}

// Names are the first few of so many names.
type Names struct {
	Count int      `json:"count"`
	First []string `json:"first"`
}

// keptNames is how many of them are kept.
const keptNames = 10

// with returns the names and one more.
func (n *Names) with(name string) *Names {
	if n == nil {
		n = &Names{}
	}
	if n.Count++; len(n.First) < keptNames {
		n.First = append(n.First, shown(name))
	}
	return n
}

// String names the first few.
func (n *Names) String() string { return some(n.First, n.Count) }

// Grade is what a finding means for hits.
type Grade string

const (
	// Good is as it should be.
	Good Grade = "good"
	// Costs costs hits, or keeps somebody from what is asked for.
	Costs Grade = "costs"
	// Note is worth knowing.
	Note Grade = "note"
)

// Finding is one thing that follows from what was found.
type Finding struct {
	Grade Grade  `json:"grade"`
	Text  string `json:"text"`
	// Set is the option that helps, if there is one.
	Set string `json:"set,omitempty"`
}

// announces reports whether a change of that list is announced, on a stream
// that opens.
func (e *Era) announces(l *List) bool {
	if e.Stream != StreamOpen {
		return false
	}
	for _, capability := range e.ListChanged {
		if capability == l.kind.Capability() {
			return true
		}
	}
	return false
}

// each calls f for every list that was had.
func (r *Report) each(f func(e *Era, l *List)) {
	for _, e := range r.Eras {
		for _, l := range e.Lists {
			if l.Failure == "" {
				f(e, l)
			}
		}
	}
}
