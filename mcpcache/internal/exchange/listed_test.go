package exchange

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/policy/policytest"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

const (
	readOnly  = `"annotations":{"readOnlyHint":true}`
	dangerous = `"annotations":{}`
)

// hinting is a page of tools, and what follows the tools in it.
func hinting(more string, tools ...string) []byte {
	return fmt.Appendf(nil, `{"resultType":"complete","tools":[%s]%s}`, strings.Join(tools, ","), more)
}

func tool(name, annotations string) string { return fmt.Sprintf(`{"name":%q,%s}`, name, annotations) }

// listsAndCalls is an upstream that lists those pages, by their cursor, and echoes
// calls. A stream with a page stays open.
func listsAndCalls(pages map[string][]byte, stream bool) stand {
	return func(w http.ResponseWriter, r *http.Request) error {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return err
		}
		var request message.Request
		if err := message.Decode(body, &request); err != nil || string(request.Method) != "tools/list" {
			_, err := w.Write(body)
			return err
		}
		page, ok := pages[strings.Trim(string(request.Cursor), `"`)]
		if !ok {
			return caddyError(http.StatusBadGateway, w)
		}
		answer := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":%s}`, request.ID, page)
		w.Header().Set("Content-Type", "application/json")
		if stream {
			w.Header().Set("Content-Type", "text/event-stream")
			answer = fmt.Appendf(nil, ": hello\n\nevent: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\"}\n\ndata: %s\n\n", answer)
		}
		if _, err = w.Write(answer); stream {
			leftOpen(r)
		}
		return err
	}
}

// leftOpen waits until nobody reads an answer any more, and ends it as reverse_proxy does.
func leftOpen(r *http.Request) {
	<-r.Context().Done()
	panic(http.ErrAbortHandler)
}

// Without a list in the cache the caller's own is asked for, page by page, all of
// it wherever the tool is.
func TestHintsAreAskedFor(t *testing.T) {
	pages := map[string][]byte{
		"":  hinting(`,"nextCursor":"2"`, tool("reads", readOnly), tool("drops", dangerous)),
		"2": hinting("", tool("last", readOnly)),
	}
	for _, stream := range []bool{false, true} {
		for name, want := range map[string]struct {
			passed bool
			asked  int64
		}{
			"reads": {true, 3}, "drops": {false, 2}, "last": {true, 3}, "missing": {false, 2},
		} {
			synctest.Test(t, func(t *testing.T) {
				f := ruled(t, config{}, "allow tools hint:read_only")
				f.upstreamIs(listsAndCalls(pages, stream))
				w := f.serve(t, calling(name))
				if passed := w.Header().Get("Cache-Status") != deniedStatus; passed != want.passed || f.asked() != want.asked {
					t.Errorf("stream: %v: %s: got %s", stream, name, w.Body)
				}
			})
		}
	}
}

// Of what cannot be read, or has no end, nothing is known. Nobody is told that a tool does
// not exist because the upstream fails.
func TestHintsThatAreNotToBeHad(t *testing.T) {
	for name, pages := range map[string]map[string][]byte{
		"no page": {}, "no list": {"": []byte(`{"tools":{}}`)}, "not JSON": {"": []byte(`{"tools":[}`)},
		"a circle": {"": hinting(`,"nextCursor":"2"`), "2": hinting(`,"nextCursor":"2"`)},
		"too long": {"": hinting("", tool("reads", readOnly), tool(strings.Repeat("x", 1<<20), readOnly))},
		"no next":  {"": hinting(`,"nextCursor":"3"`, tool("drops", dangerous))},
	} {
		f := ruled(t, config{MaxList: 1 << 20}, "allow tools hint:read_only")
		f.upstreamIs(listsAndCalls(pages, false))
		for _, tool := range []string{"reads", "missing"} {
			w := f.serve(t, calling(tool))
			if w.Header().Get("Cache-Status") != deniedStatus || w.Code != http.StatusBadGateway || !strings.Contains(w.Body.String(), `"code":-32603`) {
				t.Errorf("%s: a call of %s got %d, %v, %s", name, tool, w.Code, w.Header(), w.Body)
			}
		}
		if asked, most := f.asked(), 2*int64(f.backend.Settings.Feed.MaxPages); asked > most {
			t.Errorf("%s: the upstream was asked %d times, more than %d", name, asked, most)
		}
		if used := f.backend.Cache.Work().Used(); used != 0 {
			t.Errorf("%s: %d bytes are still taken from the memory", name, used)
		}
	}
}

// The caller's list that is in the cache says it, and nobody is asked.
func TestHintsFromMemory(t *testing.T) {
	f := ruled(t, config{}, "allow tools hint:read_only", "deny tools hint:open_world")
	page, err := message.ParsePage(hinting("", tool("reads", `"annotations":{"readOnlyHint":true,"openWorldHint":false}`), tool("surfs", readOnly), tool("drops", dangerous)), revision.Tools)
	if err != nil {
		t.Fatal(err)
	}
	f.backend.Cache.Pin(&cache.Entry{
		Kind: revision.Tools, Revision: revision.V20260728, Body: message.Single(revision.Tools, page), Fetched: time.Now(), Lifetime: time.Hour,
		Mark: f.backend.Cache.Mark(revision.Tools),
	})
	f.passed(t, "reads", calling("reads"))
	for _, name := range []string{"surfs", "drops", "missing"} {
		f.denied(t, name, calling(name), http.StatusBadRequest)
	}
}

// refusingUnlisted returns an endpoint whose rules deny the tool drop, so that callers may name only what
// their lists have.
func refusingUnlisted(t *testing.T, upstream stand) *face {
	t.Helper()
	f := ruled(t, config{}, "deny tools drop")
	f.Rules.(*policytest.Rules).DenyUnlisted()
	f.upstreamIs(upstream)
	return f
}

// as is a call of a tool by a caller with a token.
func as(token, tool string) *http.Request {
	r := calling(tool)
	r.Header.Set("Authorization", "Bearer "+token)
	return r
}

// A list that is asked for because of a call serves that caller's next calls, also if its ttlMs
// is 0. What it does not have is looked for once in the option refresh.
func TestListOfCallsIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list := func(tools ...string) stand {
			var items []string
			for _, name := range tools {
				items = append(items, tool(name, dangerous))
			}
			return listsAndCalls(map[string][]byte{
				"": hinting(`,"ttlMs":0,"cacheScope":"private","nextCursor":"2"`), "2": hinting(`,"ttlMs":0,"cacheScope":"private"`, items...),
			}, false)
		}
		f := refusingUnlisted(t, list("keep", "drop"))
		for _, token := range []string{"a", "b"} {
			ledger := f.backend.Admission
			ledger.AdmitContext(f.contextOf(as(token, "")), revision.V20260728, 0, ledger.Ticket(), time.Now().Add(time.Hour))
		}
		wants := func(token, name string, passes bool, asked int64) {
			t.Helper()
			w := f.serve(t, as(token, name))
			if passed := w.Header().Get("Cache-Status") != deniedStatus; passed != passes || f.asked() != asked {
				t.Errorf("%s: a call of %s got %s", token, name, w.Body)
			}
		}
		wants("a", "keep", true, 3) // two pages, and the call
		wants("b", "keep", true, 3)
		for range 5 {
			wants("a", "keep", true, 1)
			wants("a", "Drop", false, 0)
			wants("a", "drop", false, 0)
		}
		f.upstreamIs(list("keep", "new"))
		wants("a", "new", false, 0)
		time.Sleep(f.backend.Settings.Feed.Refresh)
		wants("a", "new", true, 3)
		wants("a", "Drop", false, 0)
		wants("b", "Drop", false, 2)
	})
}

// An upstream that lists nothing any more has nobody wait for ever.
func TestListOfCallsHasATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := refusingUnlisted(t, func(w http.ResponseWriter, r *http.Request) error {
			<-r.Context().Done()
			return caddyError(http.StatusBadGateway, w)
		})
		began := time.Now()
		w := f.serve(t, as("a", "keep"))
		if took := time.Since(began); w.Code != http.StatusBadGateway || !strings.Contains(w.Body.String(), `"code":-32603`) || took != listPatience {
			t.Errorf("after %v: %d, %s", took, w.Code, w.Body)
		}
	})
}

// An upstream that has no such list has no such items.
func TestListOfCallsThatIsNotOffered(t *testing.T) {
	f := refusingUnlisted(t, func(w http.ResponseWriter, r *http.Request) error {
		w.Header().Set("Content-Type", "application/json")
		_, err := fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"Method not found"}}`, ownID)
		return err
	})
	w := f.serve(t, as("a", "keep"))
	if w.Header().Get("Cache-Status") != deniedStatus || w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "Unknown tool: keep") {
		t.Errorf("got %d, %v, %s", w.Code, w.Header(), w.Body)
	}
}
