package exchange

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// open has the upstream open a session for a client that says that of itself.
func (f *face) open(t *testing.T, id, capabilities, name string) {
	t.Helper()
	f.upstreamIs(func(w http.ResponseWriter, r *http.Request) error {
		w.Header().Set("Mcp-Session-Id", id)
		return answering(http.StatusOK, "application/json", `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}`)(w, r)
	})
	f.serve(t, post(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":%s,"clientInfo":{"name":%q,"version":"1"}}}`,
		capabilities, name)))
}

// forwarded reports whether a list went to the upstream, which answered with those
// items.
func (f *face) forwarded(t *testing.T, r *http.Request, items ...string) bool {
	t.Helper()
	f.asked()
	f.upstreamIs(listing(items...))
	f.serve(t, r)
	return f.asked() > 0
}

// TestSessionsByVariant opens sessions of several clients: the first of each
// variant shows what the others are given, until the next notice.
func TestSessionsByVariant(t *testing.T) {
	const legacy = revision.V20251125
	f := newFace(t, config{Gate: duration(0)})
	f.pinned(t, legacy, cache.Public, time.Hour, 0, "a")
	list := func(session string) *http.Request { return legacyRequest(legacy, session, "tools/list") }
	f.open(t, "s1", `{"roots":{},"sampling":{}}`, "one")
	f.open(t, "s2", `{ "sampling" : {}, "roots" : {} }`, "one")
	f.open(t, "s3", `{"roots":{}}`, "one")
	f.open(t, "s4", `{"roots":{},"sampling":{}}`, "another")
	if !f.forwarded(t, list("s1"), "a") {
		t.Error("the first list of a variant was a hit")
	}
	for session, want := range map[string]bool{"s1": false, "s2": false, "s3": true, "s4": true} {
		if got := f.forwarded(t, list(session), "b"); got != want {
			t.Errorf("%s: forwarded %v, want %v", session, got, want)
		}
	}
	// s3 and s4 were given another list than the feed.
	for _, session := range []string{"s3", "s4"} {
		if !f.forwarded(t, list(session), "b") {
			t.Errorf("%s was given the feed's list", session)
		}
	}
	f.backend.Cache.Bump(revision.SetOf(revision.Tools))
	f.pinned(t, legacy, cache.Public, time.Hour, 0, "a")
	if !f.forwarded(t, list("s2"), "a") || f.forwarded(t, list("s1"), "a") {
		t.Error("after a notice it is not one list that shows what the variant is given")
	}
}

// A list from before a notice says nothing about the snapshot from after it.
func TestAgreementIsOfOneEpoch(t *testing.T) {
	const legacy = revision.V20251125
	f := newFace(t, config{Gate: duration(0)})
	f.pinned(t, legacy, cache.Public, time.Hour, 0, "old")
	f.open(t, "s", `{}`, "c")
	f.upstreamIs(func(w http.ResponseWriter, r *http.Request) error {
		// While it is on its way the list changes, and changes back.
		f.backend.Cache.Bump(revision.SetOf(revision.Tools))
		f.pinned(t, legacy, cache.Public, time.Hour, 0, "old")
		return listing("old")(w, r)
	})
	f.serve(t, legacyRequest(legacy, "s", "tools/list"))
	if !f.forwarded(t, legacyRequest(legacy, "s", "tools/list"), "new") {
		t.Error("an answer from before the notice agrees with the snapshot from after it")
	}
}

// TestSessionFromBefore asks in a session whose initialize nobody has seen: it is
// let in by its first list, and given the feed's only if that was the same.
func TestSessionFromBefore(t *testing.T) {
	const legacy = revision.V20251125
	for items, want := range map[string]bool{"a": false, "b": true} {
		f := newFace(t, config{Gate: duration(0)})
		f.pinned(t, legacy, cache.Public, time.Hour, 0, "a")
		list := func(session string) *http.Request { return legacyRequest(legacy, session, "tools/list") }
		if !f.forwarded(t, list("s"), items) {
			t.Error("a session that nobody knows got a hit")
		}
		if got := f.forwarded(t, list("s"), items); got != want {
			t.Errorf("given %s, the next list was forwarded %v, want %v", items, got, want)
		}
		if !f.forwarded(t, list("another"), items) {
			t.Error("another session got a hit")
		}
		// With credentials, what the session brought is for itself alone.
		as := func(session string) *http.Request {
			r := list(session)
			r.Header.Set("Authorization", "Bearer a")
			return r
		}
		f.forwarded(t, as("t1"), "own")
		f.forwarded(t, as("t2"), "own")
		f.backend.Cache.Unpin(legacy, revision.Tools)
		f.forwarded(t, as("t1"), "own")
		if f.forwarded(t, as("t1"), "x") || !f.forwarded(t, as("t2"), "x") {
			t.Error("a list of a session of no known variant is not that session's alone")
		}
	}
}

// TestLanguages asks in two languages: they are told apart once an answer of the
// upstream shows that it minds.
func TestLanguages(t *testing.T) {
	for name, c := range map[string]struct {
		header [2]string
		minds  bool
	}{
		"says nothing":     {},
		"Content-Language": {[2]string{"Content-Language", "en"}, true},
		"Vary":             {[2]string{"Vary", "Accept-Encoding, accept-language"}, true},
		"Vary by another":  {[2]string{"Vary", "Accept-Encoding"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFace(t, config{Gate: duration(0)})
			f.pinned(t, revision.V20260728, cache.Public, time.Hour, 0, "a")
			ask := func(language string) bool {
				r := modernRequest("tools/list", "")
				if language != "" {
					r.Header.Set("Accept-Language", language)
				}
				f.asked()
				f.upstreamIs(func(w http.ResponseWriter, r *http.Request) error {
					if c.header[0] != "" {
						w.Header().Set(c.header[0], c.header[1])
					}
					return listing("a")(w, r)
				})
				f.serve(t, r)
				return f.asked() > 0
			}
			ask("") // lets everybody in
			if got := ask("de"); got != c.minds {
				t.Errorf("the first list in German was forwarded %v", got)
			}
			for _, language := range []string{"de", "", "*"} {
				if ask(language) {
					t.Errorf("the next list in %q was forwarded", language)
				}
			}
			if got := ask("fr"); got != c.minds {
				t.Errorf("the first list in French was forwarded %v", got)
			}
		})
	}
}

// TestSessionsInDoubt lists in sessions while it is not certain that the upstream
// still knows them: it is asked, its 404 comes through, and its failure does not.
func TestSessionsInDoubt(t *testing.T) {
	const legacy = revision.V20251125
	synctest.Test(t, func(t *testing.T) {
		f := newFace(t, config{Gate: duration(0)})
		f.pinned(t, legacy, cache.Public, time.Hour, 0, "a")
		for _, id := range []string{"s", "lost"} {
			f.session(t, id, legacy)
		}
		list := func(session string) (code int, status string) {
			w := f.serve(t, legacyRequest(legacy, session, "tools/list"))
			return w.Code, w.Header().Get("Cache-Status")
		}
		f.upstreamIs(refusing)
		if code, status := list("s"); code != http.StatusOK {
			t.Fatalf("without a doubt, a list gave %d, %q", code, status)
		}
		f.backend.Feeds.Start(legacy)
		synctest.Wait()
		f.backend.Feeds.Of(legacy).SuspectSession()
		f.upstreamIs(answering(http.StatusNotFound, "text/plain", ""))
		if code, status := list("lost"); code != http.StatusNotFound {
			t.Errorf("the lost session got %d, %q", code, status)
		}
		f.upstreamIs(failsWith(http.StatusBadGateway))
		if code, status := list("s"); code != http.StatusOK || !strings.HasSuffix(status, "; detail=stale") {
			t.Errorf("while the upstream is away, the other got %d, %q", code, status)
		}
		f.upstreamIs(hanging)
		for i, want := range []time.Duration{time.Second, 0, 0} {
			began := time.Now()
			if code, status := list("s"); code != http.StatusOK || time.Since(began) != want {
				t.Errorf("list %d while the upstream hangs took %s: %d, %q", i, time.Since(began), code, status)
			}
		}
		f.backend.Admission.LoseSessions()
		f.upstreamIs(listing("a"))
		if code, status := list("s"); code != http.StatusOK || status != "mcp_cache; fwd=bypass; detail=admission" {
			t.Errorf("after all sessions may be lost, the other got %d, %q", code, status)
		}
	})
}

// An answer that was under way when a session was ended lets it in no more.
func TestAnswersAfterTheEnd(t *testing.T) {
	const legacy = revision.V20251125
	f := newFace(t, config{Gate: duration(0)})
	f.pinned(t, legacy, cache.Public, time.Hour, 0, "a")
	f.session(t, "s", legacy)
	arrived, release, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	f.upstreamIs(func(w http.ResponseWriter, r *http.Request) error {
		if r.Method == http.MethodDelete {
			// A list that comes meanwhile is answered by a session that is about to end.
			go func() {
				defer close(done)
				f.serve(t, legacyRequest(legacy, "s", "prompts/list"))
			}()
			<-arrived
			w.WriteHeader(http.StatusNoContent)
			return nil
		}
		close(arrived)
		<-release
		return respond(w, r, []byte(`{"prompts":[]}`))
	})
	r := legacyRequest(legacy, "s", "")
	r.Method = http.MethodDelete
	f.serve(t, r)
	close(release)
	<-done
	f.upstreamIs(answering(http.StatusNotFound, "text/plain", ""))
	if w := f.serve(t, legacyRequest(legacy, "s", "tools/list")); w.Code != http.StatusNotFound {
		t.Errorf("after its end, the session got %d, %q", w.Code, w.Header().Get("Cache-Status"))
	}
}
