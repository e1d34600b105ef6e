package lists

import (
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// TestOddAnswers has servers write their answers as parsers take them, though not as the
// specification has them: they are kept for everybody, byte for byte
// (Wazuh-MCP-Server#59).
func TestOddAnswers(t *testing.T) {
	for name, write := range map[string]func(id, result string) string{
		"an error of null": func(id, result string) string {
			return `{"jsonrpc":"2.0","id":` + id + `,"error":null,"result":` + result + `}`
		},
		"a method of null": func(id, result string) string {
			return `{"jsonrpc":"2.0","method":null,"id":` + id + `,"result":` + result + `,"params":null}`
		},
		"a float for an id": func(id, result string) string { return `{"jsonrpc":"2.0","id":` + id + `.0,"result":` + result + `}` },
		"jsonrpc twice": func(id, result string) string {
			return `{"jsonrpc":"2.0","jsonrpc":"2.0","id":` + id + `,"result":` + result + `}`
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := caddytest.NewUpstream(t)
			w.SetEnvelope(write)
			w.Start()
			caddytest.EachEra(t, func(t *testing.T, revision string) {
				w := w.On(t)
				c := w.Client(revision)
				for _, method := range scripted.ListMethods() {
					caddytest.WantHit(t, c.Settle(method), method, "v1")
				}
			})
		})
	}
}

// TestNullIsAbsent has lists with members of null (Codewhale#5335).
func TestNullIsAbsent(t *testing.T) {
	w := caddytest.NewUpstream(t)
	w.SetHints("")
	for _, method := range scripted.ListMethods() {
		w.SetMembers(method, `"nextCursor":null,"ttlMs":null,"cacheScope":null,"_meta":null,"x":null`)
	}
	w.Start()
	caddytest.EachEra(t, func(t *testing.T, revision string) {
		w := w.On(t)
		c := w.Client(revision)
		for _, method := range scripted.ListMethods() {
			a := c.Settle(method)
			caddytest.WantHit(t, a, method, "v1")
			if body := string(a.Body); strings.Contains(body, "nextCursor") {
				t.Errorf("%s", body)
			}
		}
	})
}

// TestEmptyCursor has legacy servers write an empty cursor on the last page
// (java-sdk#575).
func TestEmptyCursor(t *testing.T) {
	for name, then := range map[string]scripted.Script{
		"the same again": nil,
		"empty":          func(x *scripted.Exchange) { x.Result(`{"tools":[]}`) },
		"refused":        func(x *scripted.Exchange) { x.Error(200, -32602, "invalid cursor") },
	} {
		t.Run(name, func(t *testing.T) {
			w := caddytest.NewUpstream(t)
			w.SetRevisions(scripted.LatestLegacy)
			w.SetMembers(scripted.ToolsList, `"nextCursor":""`)
			w.SetScript(scripted.ToolsList, func(x *scripted.Exchange) {
				if then != nil && strings.Contains(string(x.Params), "cursor") {
					then(x)
					return
				}
				x.Default()
			})
			w.Start()
			caddytest.WantHit(t, w.Client(scripted.LatestLegacy).Settle(scripted.ToolsList), scripted.ToolsList, "v1")
		})
	}
}

// TestOneNameTwice has lists with one name twice, in a page and over two
// (anythingmcp#313).
func TestOneNameTwice(t *testing.T) {
	items := scripted.Items(scripted.ToolsList, "v1", 3)
	for name, pages := range map[string][]scripted.Page{
		"in a page": {append(items[:3:3], items[1])},
		"over two":  {items, items[1:2]},
	} {
		t.Run(name, func(t *testing.T) {
			w := caddytest.NewUpstream(t)
			w.SetList(scripted.ToolsList, pages...)
			w.Start()
			caddytest.EachEra(t, func(t *testing.T, revision string) {
				w := w.On(t)
				a := w.Client(revision).Settle(scripted.ToolsList)
				caddytest.WantHit(t, a, scripted.ToolsList, "v1")
				if n := len(a.Items("tools")); n != 4 {
					t.Errorf("%d items", n)
				}
				const said = "has items of one name, and is kept as it is"
				if _, status := caddytest.AskAdmin(t, http.MethodGet, "/mcp_cache/mcp_cache", nil); !strings.Contains(string(status), "tools "+said+": item-000") {
					t.Errorf("the status is %s", status)
				}
				if log := w.Proxy.Log(); !strings.Contains(log, said) {
					t.Error("the log says nothing of it")
				}
			})
		})
	}
}

// TestErrorIsReadBeforeTheStatus has a server answer what it does not offer with 404: no
// session ends with that (mcp-toolbox#3588).
func TestErrorIsReadBeforeTheStatus(t *testing.T) {
	for _, code := range []int{-32601, -32602} {
		w := caddytest.NewUpstream(t)
		w.SetRevisions(scripted.LatestLegacy)
		w.SetScript("completion/complete", func(x *scripted.Exchange) { x.Error(http.StatusNotFound, code, "no") })
		w.SetScript(scripted.PromptsList, func(x *scripted.Exchange) { x.Error(http.StatusNotFound, -32601, "no") })
		w.SetScript("logging/setLevel", func(x *scripted.Exchange) { x.Error(http.StatusBadRequest, code, "no") })
		w.Start()
		c := w.Client(scripted.LatestLegacy)
		c.Settle(scripted.ToolsList)
		for _, method := range []string{"completion/complete", "logging/setLevel"} {
			if a := c.Call(method, `{"ref":{"type":"ref/prompt","name":"item-0000"},"level":"info"}`); a.ErrorCode() != code {
				t.Errorf("%s: %s", method, a)
			}
			caddytest.WantHit(t, c.List(scripted.ToolsList), scripted.ToolsList, "v1")
		}
		for range 3 { // a client that looks for other lists first
			if a := c.List(scripted.PromptsList); a.Status != http.StatusNotFound || a.ErrorCode() != -32601 {
				t.Errorf("a list that is not offered gave %s", a)
			}
			caddytest.WantHit(t, c.List(scripted.ToolsList), scripted.ToolsList, "v1")
		}
	}
}

// TestUselessLists has a server whose lists cannot be used: it is degraded, and not down,
// and status says why.
func TestUselessLists(t *testing.T) {
	for name, c := range map[string]struct {
		answer      scripted.Script
		state, want string
	}{
		"no name":     {scripted.Nameless, "degraded", "message is invalid: no name, in item 1"},
		"no list":     {func(x *scripted.Exchange) { x.Result(`{"tools":null}`) }, "degraded", "message is invalid: the list is not an array"},
		"no message":  {scripted.Garbage, "degraded", "the answer cannot be read: parsing response: message is invalid: malformed JSON at or after byte 0"},
		"an array":    {func(x *scripted.Exchange) { x.Raw(200, "application/json", `[{}]`) }, "degraded", "the answer cannot be read: parsing response: message is invalid: not an object"},
		"nothing":     {func(x *scripted.Exchange) { x.Raw(200, "application/json", "") }, "degraded", "the answer is empty"},
		"202":         {scripted.Status(http.StatusAccepted), "degraded", "the answer is empty"},
		"no answer":   {func(x *scripted.Exchange) { x.Bytes(": x\n\n") }, "degraded", "the event stream ended without an answer"},
		"not for us":  {scripted.WrongID, "degraded", "the answer is to another request"},
		"HTML":        {scripted.HTML, "degraded", `upstream answered with content type "text/html", not JSON or an event stream`},
		"endless":     {scripted.CursorCycle, "degraded", "a cursor of the list comes again, so that it would never end"},
		"an error":    {scripted.ErrorObject, "degraded", `upstream error -32603: "database is down"`},
		"500":         {scripted.Status(http.StatusInternalServerError), "degraded", "answered 500"},
		"in a coding": {inBrotli, "degraded", `upstream answered with content encoding "br", which nobody asked for`},
		"gone":        {scripted.Status(http.StatusBadGateway), "down", "answered 502"},
		"cut":         {func(*scripted.Exchange) { panic(http.ErrAbortHandler) }, "down", "the connection was cut"},
	} {
		t.Run(name, func(t *testing.T) {
			w := caddytest.NewUpstream(t)
			w.SetRevisions(scripted.LatestLegacy)
			for _, method := range scripted.ListMethods() {
				w.SetScript(method, c.answer)
			}
			w.Start("eras legacy", "refresh 10ms")
			caddytest.AwaitFailure(t, c.state, c.want)
			for _, method := range scripted.ListMethods() {
				w.SetScript(method, nil)
			}
			caddytest.WantHit(t, w.Client(scripted.LatestLegacy).Settle(scripted.ToolsList), scripted.ToolsList, "v1")
		})
	}
}

// inBrotli answers in a content coding whether or not anybody has asked for it.
func inBrotli(x *scripted.Exchange) {
	x.W.Header().Set("Content-Encoding", "br")
	x.Raw(http.StatusOK, "application/json", "\x8b\x01\x80{}\x03")
}

// TestAnswersInACoding has calls answered in a coding that nobody has asked for: lists go on
// being hits, and that is said once (codex#37228, ai-gateway#1938).
func TestAnswersInACoding(t *testing.T) {
	w := caddytest.NewWorld(t, "refresh 10ms")
	c := w.Warm(scripted.Modern)
	call := func() {
		c.Call("tools/call", c.Params(`"name":"item-0000"`))
		caddytest.WantHit(t, c.List(scripted.ToolsList), scripted.ToolsList, "v1")
	}
	call()
	caddytest.AwaitReady(t, "mcp_cache")
	w.SetScript("tools/call", inBrotli)
	asked := w.Host.CountFeed(scripted.ToolsList)
	for range 10 {
		call()
	}
	// Each feed asks once, as after any calls, whether they have changed the list.
	if n := w.Host.CountFeed(scripted.ToolsList); n > asked+2 {
		t.Errorf("the feeds asked %d times more", n-asked)
	}
	const said = "answers in a content coding that nobody asked for"
	if n := strings.Count(w.Proxy.Log(), said); n != 1 {
		t.Errorf("the log says so %d times", n)
	}
	if _, status := caddytest.AskAdmin(t, http.MethodGet, "/mcp_cache/mcp_cache", nil); !strings.Contains(string(status), "(coding: br, 10 times)") {
		t.Errorf("the status is %s", status)
	}
}

// TestOldRevisionIsNamed has a server that always answers with the first revision: status
// names it, and all passes (pgedge#277).
func TestOldRevisionIsNamed(t *testing.T) {
	const old = "2024-11-05"
	w := caddytest.NewUpstream(t)
	w.SetRevisions(old)
	w.Start()
	fixture.Await(t, "the version", func() bool {
		_, status := caddytest.AskAdmin(t, http.MethodGet, "/mcp_cache/mcp_cache", nil)
		return strings.Contains(string(status), `2025-11-25 but \"2024-11-05\", of which lists are not kept`)
	})
	c := w.Client(old)
	if a := c.List(scripted.ToolsList); caddytest.MarkOf(a, scripted.ToolsList) != "v1" {
		t.Errorf("a list gave %s", a)
	}
	stdout, stderr := caddytest.Check(t, 1, w.Host.URL)
	if said := stdout + stderr; !strings.Contains(said, "but 2024-11-05, of which the cache keeps no lists and passes all on") {
		t.Errorf("check says %s", said)
	}
}
