package exchange

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/policy/policytest"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// rulesOf reads rules as [policytest.Parse] does; without any it returns nil.
func rulesOf(tb testing.TB, lines []string) Rules {
	tb.Helper()
	if lines == nil {
		return nil
	}
	return policytest.Parse(tb, lines...)
}

// hiding hides what is called hidden from callers without X-Admin.
var hiding = []string{"allow X-Admin tools *", "allow tools shown* other", "deny X-Guest tools shown-to-members", "deny prompts hidden*", "deny resources test://hidden*", "deny resource_templates test://hidden*"}

// ruled returns an endpoint with rules in front of an upstream that echoes, and lets
// in whom it is asked about.
func ruled(tb testing.TB, c config, lines ...string) *face {
	tb.Helper()
	if c.Rules = lines; lines == nil {
		c.Rules = hiding
	}
	f := newFace(tb, c)
	for _, r := range revision.All() {
		f.backend.Admission.AdmitContext(cache.Anonymous, r, 0, f.backend.Admission.Ticket(), time.Now().Add(time.Hour))
	}
	f.upstreamIs(func(w http.ResponseWriter, r *http.Request) error {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return err
		}
		w.Header().Set("Content-Type", "application/json")
		_, err = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":1,"result":{"echo":%q}}`, body)
		return err
	})
	return f
}

// admitLegacy opens a session.
func (f *face) admitLegacy(tb testing.TB, session string) {
	tb.Helper()
	ledger := f.backend.Admission
	ledger.OpenSession(session, cache.Anonymous, revision.V20251125, cache.Variant{}, ledger.Ticket(), time.Now().Add(time.Hour))
}

// calling is a modern call of a tool, as an SDK sends it.
func calling(name string) *http.Request {
	return withName(modernRequest("tools/call", fmt.Sprintf(`"name":%q,"arguments":{}`, name)), name)
}

func TestWhatMayCarryAMessage(t *testing.T) {
	for _, tt := range []struct {
		method string
		length int64
		want   bool
	}{
		{"GET", 0, false}, {"HEAD", 0, false}, {"OPTIONS", 0, false}, {"DELETE", 0, false}, {"TRACE", 0, false},
		{"GET", 1, true}, {"DELETE", -1, true}, {"POST", 0, true}, {"PUT", 0, true}, {"post", 0, true}, {"QUERY", 0, true},
	} {
		if got := carriesMessage(&http.Request{Method: tt.method, ContentLength: tt.length}); got != tt.want {
			t.Errorf("%s with a body of %d: got %v", tt.method, tt.length, got)
		}
	}
}

// What the feed has pinned, and what a caller was given of its own, are hits without what
// is hidden; a stale copy is no different.
func TestListsAreShownFromMemory(t *testing.T) {
	f := ruled(t, config{})
	f.pinned(t, revision.V20260728, cache.Public, time.Hour, 0, "shown", "hidden", "shown-too")
	check := func(what, status string, r *http.Request) {
		t.Helper()
		w := f.serve(t, r)
		want := `"tools":[{"name":"shown"},{"name":"shown-too"}]`
		if got := w.Body.String(); !strings.Contains(w.Header().Get("Cache-Status"), status) || !strings.Contains(got, want) ||
			w.Header().Get("Content-Length") != fmt.Sprint(len(got)) {
			t.Errorf("%s: got %v, %s", what, w.Header(), got)
		}
	}
	for range 2 {
		check("pinned", "; hit", modernRequest("tools/list", ""))
		events := modernRequest("tools/list", "")
		events.Header["Accept"] = []string{"application/json;q=0.5, text/event-stream"}
		check("as events", "; hit", events)
	}
	own := func() *http.Request {
		r := modernRequest("tools/list", "")
		r.Header["Authorization"] = []string{"Bearer own"}
		return r
	}
	f = ruled(t, config{})
	f.upstreamIs(listing("shown", "hidden", "shown-too"))
	check("the server's", "fwd=bypass; detail=admission", own())
	f.upstreamIs(func(w http.ResponseWriter, _ *http.Request) error { return caddyError(http.StatusBadGateway, w) })
	check("a caller's own", "; hit", own())
	f.backend.Cache.Bump(revision.SetOf(revision.Tools))
	check("stale", "; hit; ttl=0; detail=stale", own())
}

// Callers are shown what rules leave them of one list, and told that it is theirs alone.
func TestListsAreShownToEachCaller(t *testing.T) {
	f := ruled(t, config{Admit: "all", Harmless: []string{"X-Guest", "X-Admin"}})
	f.pinned(t, revision.V20260728, cache.Public, time.Hour, 0, "shown", "hidden", "shown-to-members")
	for range 2 {
		for header, want := range map[string]string{
			"": `[{"name":"shown"},{"name":"shown-to-members"}]`, "X-Guest": `[{"name":"shown"}]`,
			"X-Admin": `[{"name":"shown"},{"name":"hidden"},{"name":"shown-to-members"}]`,
		} {
			r := modernRequest("tools/list", "")
			if header != "" {
				r.Header[header] = []string{"1"}
			}
			w := f.serve(t, r)
			if got := w.Body.String(); !strings.HasPrefix(w.Header().Get("Cache-Status"), "mcp_cache; hit") || !strings.Contains(got, `"tools":`+want) ||
				!strings.Contains(got, `"cacheScope":"private"`) {
				t.Errorf("%q: got %v, %s", header, w.Header(), got)
			}
		}
	}
}

// What a handler in front has set for rules counts, though the client names it in
// Connection, which would have it removed.
func TestRulesSeeWhatConnectionNames(t *testing.T) {
	f := ruled(t, config{}, "deny X-Guest tools *")
	for _, path := range []string{"/mcp", "/mcp/"} {
		r := calling("shown")
		r.URL.Path = path
		r.Header["X-Guest"], r.Header["Connection"] = []string{"1"}, []string{"close, X-Guest"}
		f.denied(t, "a call at "+path, r, http.StatusBadRequest)
	}
}

// A list that has another in it is shown nobody: rules have not been asked about that.
func TestListsWithinListsAreNotShown(t *testing.T) {
	f := ruled(t, config{})
	page, err := message.ParsePage([]byte(`{"resultType":"complete","tools":[{"name":"shown"}],"resources":[{"uri":"test://hidden"}]}`), revision.Tools)
	if err != nil {
		t.Fatal(err)
	}
	f.backend.Cache.Pin(&cache.Entry{
		Kind: revision.Tools, Revision: revision.V20260728, Partition: cache.Public, Body: message.Single(revision.Tools, page),
		Fetched: time.Now(), Lifetime: time.Hour, Mark: f.backend.Cache.Mark(revision.Tools),
	})
	w := f.serve(t, modernRequest("tools/list", ""))
	if got := w.Body.String(); w.Code != http.StatusBadGateway || strings.Contains(got, "hidden") || !strings.Contains(got, `"code":-32603`) || !strings.Contains(got, `"id":1,`) {
		t.Errorf("got %d, %s", w.Code, got)
	}
}

// A read that is kept is refused too, to whom what it has read is hidden: others may have
// asked for it, where other rules count.
func TestKeptReadsAreGuarded(t *testing.T) {
	f := ruled(t, config{})
	page, err := message.ParsePage([]byte(`{"resultType":"complete","contents":[{"uri":"test://x","text":"secret"}]}`), revision.Reads)
	if err != nil {
		t.Fatal(err)
	}
	body := message.Single(revision.Reads, page)
	for _, uri := range []string{`"test://shown"`, `"test://hidden/1"`} {
		f.backend.Cache.Put(&cache.Entry{
			Kind: revision.Reads, Revision: revision.V20260728, Partition: cache.Public, Detail: []byte(uri), Body: body,
			Fetched: time.Now(), Lifetime: time.Hour, Mark: f.backend.Cache.Mark(revision.Reads),
		})
	}
	w := f.serve(t, reading(revision.V20260728, `"test://shown"`))
	if !strings.HasPrefix(w.Header().Get("Cache-Status"), "mcp_cache; hit") || !strings.Contains(w.Body.String(), "secret") {
		t.Errorf("what may be read is not a hit: %v, %s", w.Header(), w.Body)
	}
	f.denied(t, "a read that is kept", reading(revision.V20260728, `"test://hidden/1"`), http.StatusBadRequest)
}
