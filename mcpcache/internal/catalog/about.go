package catalog

import (
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// About is what a joined catalogue says of itself, besides its lists.
type About struct {
	// Name and Version are those of serverInfo (2026-07-28, schema, "Implementation").
	Name, Version string
	// Instructions are for clients; "": the servers' own, each below its name.
	Instructions string
}

// The most bytes of instructions that are taken of one server, and of all together: they
// are in the context of a model for a whole session.
const (
	maxInstructions    = 8 << 10
	maxAllInstructions = 32 << 10
)

// capabilities are offered whatever the servers have at the moment, so that one that is
// down hides nothing from a client for as long as it remembers the answer.
const capabilities = `{"completions":{},"logging":{},"prompts":{"listChanged":true},"resources":{"listChanged":true},"tools":{"listChanged":true}}`

// info appends the _meta of a result, which says whose it is.
func (a *About) info(dst []byte) []byte {
	dst = append(dst, `"_meta":{"io.modelcontextprotocol/serverInfo":{"name":`...)
	dst, _ = jsontext.AppendQuote(dst, a.Name)
	dst = append(dst, `,"version":`...)
	dst, _ = jsontext.AppendQuote(dst, a.Version)
	return append(dst, "}}"...)
}

// around returns what is before and after the items of a list of kind k.
func (a *About) around(r revision.Revision, k revision.Kind, scope message.Scope) (before, after []byte) {
	before = append(append(append(before, '"'), k.ItemsKey()...), `":[`...)
	if r.Era() == revision.Legacy {
		return before, []byte("]}}")
	}
	after = append(append(after, `],"resultType":"complete","cacheScope":"`...), scope.String()...)
	return before, append(a.info(append(after, `",`...)), "}}"...)
}

// describe makes the result of server/discover.
func (a *About) describe(r revision.Revision, servers []Joining, parts []*cache.Entry, scope message.Scope) *message.Body {
	result := append([]byte(`{"resultType":"complete","supportedVersions":["`), r.String()...)
	result = append(result, `"],"capabilities":`+capabilities...)
	results := make([][]byte, len(parts))
	for number, part := range parts {
		if part != nil {
			results[number] = resultOf(part)
		}
	}
	result = a.instruct(result, servers, results)
	result = append(append(append(result, `,"cacheScope":"`...), scope.String()...), `",`...)
	page, err := message.ParsePage(append(a.info(result), '}'), revision.Discover)
	if err != nil {
		panic(err) // it is made of well-formed parts
	}
	return message.Single(revision.Discover, page)
}

// Initialize makes the result of initialize, of what the servers have said of themselves,
// by their numbers; nil is that of one that is not known (2025-11-25, "Lifecycle").
func (j *Joined) Initialize(r revision.Revision, results [][]byte) []byte {
	result := append([]byte(`{"protocolVersion":"`), r.String()...)
	result = append(result, `","capabilities":`+capabilities+`,"serverInfo":{"name":`...)
	result, _ = jsontext.AppendQuote(result, j.about.Name)
	result, _ = jsontext.AppendQuote(append(result, `,"version":`...), j.about.Version)
	return append(j.about.instruct(append(result, '}'), j.servers, results), '}')
}

// instruct appends what clients are told of how to use the servers, if it is anything.
func (a *About) instruct(dst []byte, servers []Joining, results [][]byte) []byte {
	if text := a.instructions(servers, results); text != "" {
		dst, _ = jsontext.AppendQuote(append(dst, `,"instructions":`...), text)
	}
	return dst
}

func (a *About) instructions(servers []Joining, results [][]byte) string {
	if a.Instructions != "" {
		return a.Instructions
	}
	var all strings.Builder
	for number, result := range results {
		if result == nil {
			continue
		}
		text := strings.TrimSpace(message.StringAt(result, "instructions"))
		if text == "" {
			continue
		}
		if all.Len() > 0 {
			all.WriteString("\n\n")
		}
		all.WriteString("# " + servers[number].Name + "\n\n" + brief(text, maxInstructions))
	}
	return brief(all.String(), maxAllInstructions)
}

// Describing returns what of the result of a server's initialize is told to clients of the
// server/discover of a joined catalogue, as a body of that kind.
func Describing(initialize []byte) *message.Body {
	text, _ := jsontext.AppendQuote([]byte(`{"instructions":`), message.StringAt(initialize, "instructions"))
	page, err := message.ParsePage(append(text, '}'), revision.Discover)
	if err != nil {
		panic(err) // it is made of well-formed parts
	}
	return message.Single(revision.Discover, page)
}

// resultOf returns the result that an entry was made of, without what is ours.
func resultOf(e *cache.Entry) []byte {
	body := e.AppendTo([]byte{'{'}, 0)
	return body[:len(body)-len("}")]
}

// brief cuts a text to at most so many bytes.
func brief(text string, most int) string {
	const more = "…"
	if len(text) <= most {
		return text
	}
	return cut(text, most-len(more)) + more
}

// cut returns the beginning of a text: at most so many bytes, of whole characters.
func cut(text string, most int) string {
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}
