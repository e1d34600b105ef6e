package lists

import (
	"bytes"
	"compress/gzip"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// odd is a request that a cache must not answer.
type odd struct {
	name   string
	body   func(c *fixture.Raw) string
	header http.Header
	era    string // a revision, "" for both eras
}

func members(more string) func(*fixture.Raw) string {
	return func(c *fixture.Raw) string { return fixture.Message("7", scripted.ToolsList, c.Params(more)) }
}

// edited replaces a part of an ordinary list request.
func edited(old, replacement string) func(*fixture.Raw) string {
	return func(c *fixture.Raw) string { return strings.Replace(members("")(c), old, replacement, 1) }
}

func oddRequests(t *testing.T) []odd {
	const modern, legacy = scripted.Modern, scripted.LatestLegacy
	meta := `"_meta":{`
	return []odd{
		{name: "cursor", body: members(`"cursor":"bad"`)},
		{name: "empty cursor", body: members(`"cursor":""`)},
		{name: "unknown param", body: members(`"filter":"x"`)},
		{name: "unknown _meta", body: edited(meta, meta+`"vendor/key":1,`), era: modern},
		{name: "unknown legacy _meta", body: members(`"_meta":{"vendor/key":1}`), era: legacy},
		{name: "batch", body: func(c *fixture.Raw) string { return "[" + members("")(c) + "]" }},
		{name: "repeated method", body: edited(`"method"`, `"method":"ping","method"`)},
		{name: "variant of method", body: edited(`"method"`, `"Method":"ping","method"`)},
		{name: "escaped repeat", body: edited(`"method"`, `"\u006dethod":"ping","method"`)},
		{name: "repeated params", body: edited(`"params"`, `"params":{},"params"`)},
		{name: "unknown member", body: edited(`"id"`, `"vendor":1,"id"`)},
		{name: "id null", body: edited(`"id":7`, `"id":null`)},
		{name: "fractional id", body: edited(`"id":7`, `"id":7.5`)},
		{name: "id of a long string", body: edited(`"id":7`, `"id":"`+strings.Repeat("x", 2000)+`"`)},
		{name: "notification", body: edited(`"id":7,`, ``)},
		{name: "other jsonrpc", body: edited(`"2.0"`, `"1.0"`)},
		{name: "params of an array", body: func(*fixture.Raw) string { return fixture.Message("7", scripted.ToolsList, "[]") }},
		{name: "trailing bytes", body: func(c *fixture.Raw) string { return members("")(c) + "{}" }},
		{name: "no JSON", body: func(*fixture.Raw) string { return "hello" }},
		{name: "nothing", body: func(*fixture.Raw) string { return "" }},
		{name: "bad UTF-8", body: members("\"cursor\":\"\xff\"")},
		{name: "content type", body: members(""), header: http.Header{"Content-Type": {"text/plain"}}},
		{name: "no content type", body: members(""), header: http.Header{"Content-Type": {}}},
		{name: "other charset", body: members(""), header: http.Header{"Content-Type": {"application/json; charset=utf-16"}}},
		{name: "content encoding", body: func(c *fixture.Raw) string { return zip(t, members("")(c)) }, header: http.Header{"Content-Encoding": {"gzip"}}},
		{name: "accept without JSON", body: members(""), header: http.Header{"Accept": {"text/event-stream"}}},
		{name: "accept without event streams", body: members(""), header: http.Header{"Accept": {"application/json"}}},
		{name: "no accept", body: members(""), header: http.Header{"Accept": {}}},
		{name: "no _meta", body: func(*fixture.Raw) string { return fixture.Message("7", scripted.ToolsList, "{}") }, era: modern},
		{name: "no capabilities", body: edited(`,"io.modelcontextprotocol/clientCapabilities":{}`, ``), era: modern},
		{name: "no params", body: func(*fixture.Raw) string { return `{"jsonrpc":"2.0","id":7,"method":"tools/list"}` }, era: modern},
		{name: "method header differs", body: members(""), header: http.Header{"Mcp-Method": {"ping"}}, era: modern},
		{name: "method header in other case", body: members(""), header: http.Header{"Mcp-Method": {"Tools/List"}}, era: modern},
		{name: "no method header", body: members(""), header: http.Header{"Mcp-Method": {}}, era: modern},
		{name: "version header differs", body: members(""), header: http.Header{"Mcp-Protocol-Version": {"2025-11-25"}}, era: modern},
		{name: "no version header", body: members(""), header: http.Header{"Mcp-Protocol-Version": {}}, era: modern},
		{name: "unknown version", body: edited(modern, "2099-01-01"), header: http.Header{"Mcp-Protocol-Version": {"2099-01-01"}}, era: modern},
		{name: "version of another session", body: members(""), header: http.Header{"Mcp-Protocol-Version": {"2025-06-18"}}, era: legacy},
		{name: "unknown legacy version", body: members(""), header: http.Header{"Mcp-Protocol-Version": {"2024-01-01"}}, era: legacy},
		{name: "no session", body: members(""), header: http.Header{"Mcp-Session-Id": {}}, era: legacy},
		{name: "unknown session", body: members(""), header: http.Header{"Mcp-Session-Id": {"session-999999"}}, era: legacy},
		{name: "two sessions", body: members(""), header: http.Header{"Mcp-Session-Id": {"session-1", "session-2"}}, era: legacy},
	}
}

func zip(t *testing.T, s string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(s)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestUncertainIsForwarded sends requests that are odd in one way each, while
// the ordinary one would be a hit: each reaches the upstream byte for byte, and
// what the upstream says comes back.
func TestUncertainIsForwarded(t *testing.T) {
	w := caddytest.NewWorld(t)
	caddytest.EachEra(t, func(t *testing.T, revision string) {
		w := w.On(t)
		c := w.Warm(revision)
		direct := fixture.New(t, w.Host.URL, revision, "")
		direct.Session = c.Session
		for _, o := range oddRequests(t) {
			if o.era != "" && o.era != revision {
				continue
			}
			t.Run(o.name, func(t *testing.T) { wantUntouched(t, w, c, direct, &o) })
		}
		c.List(scripted.ToolsList) // lets a session in again that was answered with 400
		caddytest.WantHit(t, c.List(scripted.ToolsList), scripted.ToolsList, "v1")
	})
}

func wantUntouched(t *testing.T, w *caddytest.World, c, direct *fixture.Raw, o *odd) {
	t.Helper()
	header := http.Header{}
	if c.Modern() {
		header.Set("Mcp-Method", scripted.ToolsList)
	}
	maps.Copy(header, o.header)
	body := o.body(c)
	want := direct.Post(body, header)
	expected, _ := w.Host.Last()
	w.Host.Forget()
	got := c.Post(body, header)
	caddytest.WantForwarded(t, got)
	if got.Status != want.Status || !bytes.Equal(got.Body, want.Body) {
		t.Errorf("got %s\nwant %s", got, want)
	}
	arrived, ok := w.Host.Last()
	if !ok {
		t.Fatal("the request did not reach the upstream")
	}
	if !bytes.Equal(arrived.Body, []byte(body)) {
		t.Errorf("body arrived as %q, was %q", arrived.Body, body)
	}
	for _, name := range []string{
		"Content-Type", "Content-Encoding", "Content-Length", "Accept", "Mcp-Method", "Mcp-Protocol-Version", "Mcp-Session-Id",
	} {
		if g, e := arrived.Header.Values(name), expected.Header.Values(name); strings.Join(g, "|") != strings.Join(e, "|") {
			t.Errorf("header %s arrived as %q, want %q", name, g, e)
		}
	}
}

// TestOtherMethodsAreForwarded calls what no cache may answer, in both eras.
func TestOtherMethodsAreForwarded(t *testing.T) {
	w := caddytest.NewWorld(t)
	caddytest.EachEra(t, func(t *testing.T, revision string) {
		w := w.On(t)
		c := w.Warm(revision)
		for method, params := range map[string]string{
			"tools/call": `"name":"item-0000"`, "prompts/get": `"name":"item-0000"`,
			"completion/complete": `"ref":{"type":"ref/prompt","name":"x"},"argument":{"name":"a","value":"b"}`,
			"ping":                "", "no/such-method": "", "tools/listing": "",
		} {
			for range 2 {
				before := w.Host.CountClients(method)
				a := c.Call(method, c.Params(params))
				caddytest.WantForwarded(t, a)
				if n := w.Host.CountClients(method) - before; n != 1 {
					t.Errorf("%s reached the upstream %d times", method, n)
				}
			}
		}
		if a := c.Call("no/such-method", c.Params("")); a.ErrorCode() != -32601 {
			t.Errorf("unknown method gave %s", a)
		}
	})
}
