package exchange

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cursor"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/secret"
)

// asksPage asks for a page, and returns the names on it and the next cursor.
func asksPage(t *testing.T, f *face, r *http.Request) (names, next string) {
	t.Helper()
	w := f.serve(t, r)
	var answer struct {
		Result struct {
			Tools      []struct{ Name string }
			NextCursor string
		}
		Error struct {
			Code int
		}
	}
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		t.Fatalf("got %s: %v", w.Body, err)
	}
	if answer.Error.Code != 0 {
		return fmt.Sprint(answer.Error.Code), ""
	}
	for _, tool := range answer.Result.Tools {
		names += tool.Name
	}
	return names, answer.Result.NextCursor
}

func pageRequest(cursor string) *http.Request {
	if cursor == "" {
		return modernRequest("tools/list", "")
	}
	return modernRequest("tools/list", fmt.Sprintf(`"cursor":%q`, cursor))
}

// paging is an endpoint with pages of two, and a list of those tools.
func paging(t *testing.T, rules []string, tools string) *face {
	t.Helper()
	f := newFace(t, config{Admit: "all"})
	f.paged(secret.New())
	if rules != nil {
		f.Rules = rulesOf(t, rules)
	}
	f.lists(t, tools)
	f.upstreamIs(func(w http.ResponseWriter, r *http.Request) error {
		return respond(w, r, toolsOf("upstream"))
	})
	return f
}

// paged has lists cut into pages of two, by cursors that are sealed with a secret.
func (f *face) paged(s secret.Secret) {
	sealer, loaded := cursor.NewSealer(secret.Ring{s}), make(chan struct{})
	close(loaded)
	f.Paging = &Paging{Size: 2, Sealer: func() *cursor.Sealer { return sealer }, Tried: loaded, Server: "http://127.0.0.1:3001/mcp"}
}

// lists makes tools of one letter each the list.
func (f *face) lists(t *testing.T, tools string) {
	t.Helper()
	f.backend.Cache.Bump(revision.SetOf(revision.Tools))
	f.pinned(t, revision.V20260728, cache.Public, time.Hour, 0, strings.Split(tools, "")...)
}

func TestPageSizes(t *testing.T) {
	for tools, want := range map[string]string{"a": "a", "ab": "ab", "abc": "ab|c", "abcd": "ab|cd", "abcde": "ab|cd|e"} {
		f := paging(t, nil, tools)
		var pages []string
		for cursor := ""; ; {
			names, next := asksPage(t, f, pageRequest(cursor))
			pages = append(pages, names)
			if cursor = next; cursor == "" {
				break
			}
		}
		if got := strings.Join(pages, "|"); got != want || f.asked() != 0 {
			t.Errorf("%s: got %s, want %s", tools, got, want)
		}
	}
}

// TestPagesAwaitSecrets asks for a page by a cursor from before, while the secrets are being loaded. The page
// comes once the secrets are there. After a second without them, the request goes to the server.
func TestPagesAwaitSecrets(t *testing.T) {
	for within, want := range map[time.Duration]string{time.Second / 2: "c", 2 * time.Second: "upstream"} {
		synctest.Test(t, func(t *testing.T) {
			f := paging(t, nil, "abc")
			before := *f.Paging
			_, next := asksPage(t, f, pageRequest(""))
			loaded, own := make(chan struct{}), cursor.NewSealer(secret.Ring{secret.New()})
			f.Paging.Tried = loaded
			f.Paging.Sealer = func() *cursor.Sealer {
				select {
				case <-loaded:
					return before.Sealer()
				default:
					return own
				}
			}
			go func() {
				time.Sleep(within)
				close(loaded)
			}()
			if got, _ := asksPage(t, f, pageRequest(next)); got != want {
				t.Errorf("the secrets are there in %v: a page has %s, want %s", within, got, want)
			}
			<-loaded
		})
	}
}

// A cursor goes on behind the item it was made at, wherever that is now.
func TestPagesOfAListThatChanges(t *testing.T) {
	for changed, want := range map[string]string{
		"abcd": "cd", "xabcd": "cd", "abxcd": "xc", "bacd": "ac", "ab": "", "cdab": "", "acd": "-32602", "x": "-32602",
	} {
		f := paging(t, nil, "abcd")
		_, cursor := asksPage(t, f, pageRequest(""))
		f.lists(t, changed)
		if got, _ := asksPage(t, f, pageRequest(cursor)); got != want || f.asked() != 0 {
			t.Errorf("abcd has become %s: got %q, want %q", changed, got, want)
		}
	}
}

// nowhere fails unless a cursor of ours leads nowhere, and the upstream does not hear
// of it.
func (f *face) nowhere(t *testing.T, what string, r *http.Request) {
	t.Helper()
	f.asked()
	w := f.serve(t, r)
	if w.Header().Get("Cache-Status") != deniedStatus || !strings.Contains(w.Body.String(), `"code":-32602`) || f.asked() != 0 {
		t.Errorf("%s: got %v, %s", what, w.Header(), w.Body)
	}
}

// otherThan returns another character than that one.
func otherThan(c byte) string {
	if c == 'x' {
		return "y"
	}
	return "x"
}

// A cursor is of use only to those who may be given the same of the same list. What
// another server makes of its own is its business.
func TestCursorsAreBound(t *testing.T) {
	rules := []string{"allow X-Secret-One tools *", "allow X-Secret-Two tools *", "deny X-Secret-Two tools b", "allow X-Secret-Three tools a* b* c*  d*"}
	f := paging(t, rules, "abcdef")
	as := func(header, cursor string) *http.Request {
		r := pageRequest(cursor)
		r.Header[header] = []string{"1"}
		return r
	}
	_, cursor := asksPage(t, f, as("X-Secret-One", ""))
	if cursor == "" {
		t.Fatal("there is no cursor")
	}
	if got, _ := asksPage(t, f, as("X-Secret-One", cursor)); got != "cd" {
		t.Errorf("its owner got %s", got)
	}
	for _, header := range []string{"X-Secret-Two", "X-Secret-Three", "X-Secret-None"} {
		f.nowhere(t, header, as(header, cursor))
	}
	f.nowhere(t, "a changed one", as("X-Secret-One", cursor[:len(cursor)-1]+otherThan(cursor[len(cursor)-1])))
	prompts, err := message.ParsePage([]byte(`{"prompts":[{"name":"a"},{"name":"b"},{"name":"c"}]}`), revision.Prompts)
	if err != nil {
		t.Fatal(err)
	}
	f.backend.Cache.Pin(&cache.Entry{
		Kind: revision.Prompts, Revision: revision.V20260728, Body: message.Single(revision.Prompts, prompts),
		Fetched: time.Now(), Lifetime: time.Hour, Mark: f.backend.Cache.Mark(revision.Prompts),
	})
	f.nowhere(t, "for another list", modernRequest("prompts/list", fmt.Sprintf(`"cursor":%q`, cursor)))
	for what, r := range map[string]*http.Request{
		"for discover": modernRequest("server/discover", fmt.Sprintf(`"cursor":%q`, cursor)), "a short one": as("X-Secret-One", cursor[:len(cursor)-1]),
		"of another mark": as("X-Secret-One", otherThan(cursor[0])+cursor[1:]),
	} {
		f.asked()
		if f.serve(t, r); f.asked() != 1 {
			t.Errorf("%s: the cursor is opened", what)
		}
	}
	other := paging(t, rules, "abcdef")
	other.serve(t, as("X-Secret-One", cursor))
	if other.asked() != 1 {
		t.Error("another server's cursor is opened")
	}
	sealed := secret.New()
	f.paged(sealed)
	_, cursor = asksPage(t, f, as("X-Secret-One", ""))
	f.paged(sealed)
	if got, _ := asksPage(t, f, as("X-Secret-One", cursor)); got != "cd" {
		t.Errorf("after a restart its owner got %s", got)
	}
	f.Paging.Server += "2"
	f.nowhere(t, "of another server", as("X-Secret-One", cursor))
}

// TestTamperedCursors sends 10,000 cursors that were changed, and those of others, as callers
// with different views: nobody is given a page by another's, nor by one that is not as it was
// made.
func TestTamperedCursors(t *testing.T) {
	rules := []string{"allow X-Secret-One tools *", "allow X-Secret-Two tools *", "deny X-Secret-Two tools b", "allow X-Secret-Three tools a* b* c* d*"}
	f := paging(t, rules, "abcdefgh")
	f.upstreamIs(func(w http.ResponseWriter, r *http.Request) error { return respond(w, r, toolsOf()) })
	owners := map[string]string{} // by cursor
	var cursors []string
	as := func(header, cursor string) *http.Request {
		r := pageRequest(cursor)
		r.Header[header] = []string{"1"}
		return r
	}
	headers := []string{"X-Secret-One", "X-Secret-Two", "X-Secret-Three"}
	for _, header := range headers {
		for cursor := ""; ; {
			if _, cursor = asksPage(t, f, as(header, cursor)); cursor == "" {
				break
			}
			owners[cursor] = header
			cursors = append(cursors, cursor)
		}
	}
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	random, pages := rand.New(rand.NewPCG(1, 2)), 0
	for range 10_000 {
		cursor := []byte(cursors[random.IntN(len(cursors))])
		switch random.IntN(4) {
		case 0: // as it is
		case 1: // the beginning of one, the end of another
			other := cursors[random.IntN(len(cursors))]
			at := random.IntN(len(cursor))
			copy(cursor[at:], other[at:])
		default:
			for range 1 + random.IntN(3) {
				cursor[random.IntN(len(cursor))] = alphabet[random.IntN(len(alphabet))]
			}
		}
		header := headers[random.IntN(len(headers))]
		own := owners[string(cursor)] == header
		names, _ := asksPage(t, f, as(header, string(cursor)))
		if isPage := names != "" && names != "-32602"; isPage != own {
			t.Fatalf("%s asked by %s of %q, and got %s", header, cursor, owners[string(cursor)], names)
		}
		if own {
			pages++
		}
	}
	if len(cursors) != 7 || pages < 500 {
		t.Errorf("of %d cursors %d gave a page", len(cursors), pages)
	}
}

// Of another revision, and of a list that is a caller's own, a cursor is of no use to
// others.
func TestCursorsOfOtherLists(t *testing.T) {
	f := paging(t, nil, "abcd")
	_, cursor := asksPage(t, f, pageRequest(""))
	f.pinned(t, revision.V20251125, cache.Public, time.Hour, 0, "a", "b", "c", "d")
	f.admitLegacy(t, "session")
	legacy := func(cursor string) *http.Request {
		r := legacyRequest(revision.V20251125, "session", "tools/list")
		return withBodyOf(r, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":%q}}`, cursor))
	}
	f.nowhere(t, "of another revision", legacy(cursor))
	names, own := asksPage(t, f, withBodyOf(legacy(""), `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`))
	if got, _ := asksPage(t, f, legacy(own)); names != "ab" || got != "cd" || f.asked() != 0 {
		t.Errorf("the legacy pages are %s and %s", names, got)
	}
	private := paging(t, nil, "abcd")
	private.backend.Cache.Unpin(revision.V20260728, revision.Tools)
	private.upstreamIs(listing("a", "b", "c"))
	as := func(who, cursor string) *http.Request {
		r := pageRequest(cursor)
		r.Header["Authorization"] = []string{"Bearer " + who}
		return r
	}
	cursors := make(map[string]string)
	for _, who := range []string{"ann", "bob"} {
		for range 2 { // the first of them is the server's own answer, to be kept
			_, cursors[who] = asksPage(t, private, as(who, ""))
		}
	}
	private.asked()
	if got, _ := asksPage(t, private, as("ann", cursors["ann"])); got != "c" || private.asked() != 0 || cursors["ann"] == cursors["bob"] {
		t.Errorf("got %s, asked %d, by %v", got, private.asked(), cursors)
	}
	private.nowhere(t, "another caller's", as("ann", cursors["bob"]))
}

// TestCursorAsksForTheList asks by a cursor for a list that cannot be given from memory now:
// the upstream is asked as for a first page, and what comes of that comes of the page.
func TestCursorAsksForTheList(t *testing.T) {
	failing := func(status int) stand {
		return func(w http.ResponseWriter, _ *http.Request) error {
			w.WriteHeader(status)
			_, err := io.WriteString(w, "the upstream's own")
			return err
		}
	}
	refusing := func(w http.ResponseWriter, _ *http.Request) error {
		w.Header().Set("Content-Type", "application/json")
		_, err := io.WriteString(w, `{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"no"}}`)
		return err
	}
	streaming := func(w http.ResponseWriter, _ *http.Request) error {
		w.Header().Set("Content-Type", "text/event-stream")
		_, err := fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\"}\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":%s}\n\n", toolsOf("a", "b", "x"))
		return err
	}
	streamingOn := func(w http.ResponseWriter, r *http.Request) error {
		_ = streaming(w, r)
		leftOpen(r)
		return nil
	}
	cutting := func(w http.ResponseWriter, r *http.Request) error {
		return respond(w, r, bytes.Replace(toolsOf("a", "b", "x"), []byte("]"), []byte(`],"nextCursor":"theirs"`), 1))
	}
	const own, stale = "the upstream's own", "; detail=stale"
	for name, c := range map[string]struct {
		who    string
		change func(*face)
		answer stand
		status int
		says   string // in the body
		cache  string // in Cache-Status
		asked  int64
	}{
		"it is there":                  {"ann", func(*face) {}, listing("a", "b", "x"), 200, `[{"name":"c"},{"name":"d"}]`, "; hit", 0},
		"a later one is there":         {"eve", func(f *face) { f.pinned(t, revision.V20260728, cache.Public, time.Hour, -time.Second, "a", "b", "x") }, listing(), 200, `[{"name":"x"}]`, "; hit", 0},
		"expired, and brought":         {"ann", func(*face) { time.Sleep(2 * time.Minute) }, listing("a", "b", "x"), 200, `[{"name":"x"}]`, "; fwd=uri-miss", 1},
		"expired, and its end is gone": {"ann", func(*face) { time.Sleep(2 * time.Minute) }, listing("a", "x"), 400, `"code":-32602`, deniedStatus, 1},
		"expired, and not brought":     {"ann", func(*face) { time.Sleep(2 * time.Minute) }, failing(503), 200, `[{"name":"c"},{"name":"d"}]`, stale, 1},
		"expired, and refused":         {"ann", func(*face) { time.Sleep(2 * time.Minute) }, failing(401), 401, own, "; fwd=", 1},
		"announced, and not brought":   {"ann", func(f *face) { f.backend.Cache.Bump(revision.SetOf(revision.Tools)) }, failing(503), 200, `[{"name":"c"},{"name":"d"}]`, stale, 1},
		"announced, and brought":       {"ann", func(f *face) { f.backend.Cache.Bump(revision.SetOf(revision.Tools)) }, listing("a", "b", "x"), 200, `[{"name":"x"}]`, "; fwd=uri-miss", 1},
		"forgotten, and brought":       {"ann", func(f *face) { f.backend.Cache.Purge() }, listing("0", "a", "b"), 200, `"tools":[]`, "; fwd=uri-miss", 1},
		"forgotten, and not brought":   {"ann", func(f *face) { f.backend.Cache.Purge() }, failing(503), 503, own, "; fwd=", 1},
		"forgotten, and an error":      {"ann", func(f *face) { f.backend.Cache.Purge() }, refusing, 200, `"code":-32000`, "; fwd=", 1},
		"forgotten, and streamed":      {"ann", func(f *face) { f.backend.Cache.Purge() }, streaming, 200, `[{"name":"x"}]`, "; fwd=uri-miss", 1},
		"forgotten, and left open":     {"ann", func(f *face) { f.backend.Cache.Purge() }, streamingOn, 200, `[{"name":"x"}]`, "; fwd=uri-miss", 1},
		"forgotten, and cut":           {"ann", func(f *face) { f.backend.Cache.Purge() }, cutting, 400, `"code":-32602`, deniedStatus, 1},
		"forgotten, and not kept":      {"eve", func(f *face) { f.backend.Cache.Unpin(revision.V20260728, revision.Tools) }, listing("a", "b", "x"), 200, `[{"name":"x"}]`, "; fwd=uri-miss", 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := paging(t, nil, "abcd")
				as := func(cursor string) *http.Request {
					r := pageRequest(cursor)
					if c.who != "eve" { // who has no credentials
						r.Header["Authorization"] = []string{"Bearer " + c.who}
					}
					return r
				}
				if c.who != "eve" {
					f.backend.Cache.Unpin(revision.V20260728, revision.Tools)
					f.upstreamIs(listing("a", "b", "c", "d"))
					asksPage(t, f, as("")) // is kept
				}
				_, cursor := asksPage(t, f, as(""))
				c.change(f)
				f.upstreamIs(func(w http.ResponseWriter, r *http.Request) error {
					body, err := io.ReadAll(r.Body)
					if err != nil || strings.Contains(string(body), "cursor") || !strings.Contains(string(body), `"_meta"`) || int64(len(body)) != r.ContentLength {
						t.Errorf("the upstream is asked %s, of %d bytes, error %v", body, r.ContentLength, err)
					}
					r.Body = io.NopCloser(bytes.NewReader(body))
					return c.answer(w, r)
				})
				f.asked()
				w := f.serve(t, as(cursor))
				if asked := f.asked(); w.Code != c.status || !strings.Contains(w.Body.String(), c.says) || !strings.Contains(w.Header().Get("Cache-Status"), c.cache) || asked != c.asked {
					t.Errorf("asked %d, got %d, %v, %s", asked, w.Code, w.Header(), w.Body)
				}
			})
		})
	}
}

// Lists that the upstream cuts into pages are not cut again.
func TestPagesOfTheUpstream(t *testing.T) {
	f := paging(t, nil, "abcd")
	f.backend.Cache.Unpin(revision.V20260728, revision.Tools)
	f.upstreamIs(func(w http.ResponseWriter, r *http.Request) error {
		return respond(w, r, []byte(`{"resultType":"complete","tools":[{"name":"a"},{"name":"b"},{"name":"c"}],"nextCursor":"theirs","ttlMs":60000,"cacheScope":"private"}`))
	})
	for range 2 {
		if got, next := asksPage(t, f, pageRequest("")); got != "abc" || next != "theirs" {
			t.Errorf("got %s, then %s", got, next)
		}
	}
}

// TestCursorsAndTheDoor asks by a good cursor as callers that the upstream has not let in:
// whom it lets in now is given the page, and whom it does not is told so.
func TestCursorsAndTheDoor(t *testing.T) {
	f := newFace(t, config{})
	f.paged(secret.New())
	f.lists(t, "abcd")
	f.letIn(t, "Bearer ann")
	f.upstreamIs(func(w http.ResponseWriter, r *http.Request) error {
		if r.Header.Get("Authorization") != "Bearer ann" {
			w.Header().Set("Www-Authenticate", "Bearer")
			w.WriteHeader(http.StatusUnauthorized)
			return nil
		}
		return respond(w, r, toolsOf("a", "b", "c", "d"))
	})
	as := func(who, cursor string) *http.Request {
		r := pageRequest(cursor)
		r.Header["Authorization"] = []string{"Bearer " + who}
		return r
	}
	_, cursor := asksPage(t, f, as("ann", ""))
	f.backend.Admission.Purge()
	f.asked()
	if w := f.serve(t, as("eve", cursor)); w.Code != http.StatusUnauthorized || w.Header().Get("Www-Authenticate") == "" || f.asked() != 1 {
		t.Errorf("eve got %d, %v, %s", w.Code, w.Header(), w.Body)
	}
	if got, _ := asksPage(t, f, as("ann", cursor)); got != "cd" || f.asked() != 1 {
		t.Errorf("ann got %s", got)
	}
	if got, _ := asksPage(t, f, as("ann", cursor)); got != "cd" || f.asked() != 0 {
		t.Errorf("once let in, ann got %s", got)
	}
}
