package feed

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/variant"
)

// nthClient is of the nth of many variants.
func nthClient(n int) variant.Client {
	return variant.Client{Capabilities: fmt.Appendf(nil, `{"x":%d}`, n), Name: "c"}
}

// byCapabilities has a server with sessions show tools by what the client of a
// session can do: its n, and "plain" to the feed.
func byCapabilities(s *server) {
	can := make(map[string]string) // by session
	s.On("initialize", func(w http.ResponseWriter, _ *http.Request, c call) error {
		// The client may ask as soon as it has the answer.
		answer := httptest.NewRecorder()
		if err := s.Initialize(answer, c); err != nil {
			return err
		}
		s.Do(func() { can[answer.Header().Get("Mcp-Session-Id")] = string(c.Params.Capabilities) })
		maps.Copy(w.Header(), answer.Header())
		_, err := w.Write(answer.Body.Bytes())
		return err
	})
	s.On(list, func(w http.ResponseWriter, r *http.Request, c call) error {
		id, name := r.Header.Get("Mcp-Session-Id"), "plain"
		var capabilities struct{ X *int }
		s.Mu.Lock()
		known, said := s.Sessions[id], can[id]
		s.Mu.Unlock()
		if !known {
			return failure(http.StatusNotFound, -32001, "")(w, r, c)
		}
		if json.Unmarshal([]byte(said), &capabilities) == nil && capabilities.X != nil {
			name = fmt.Sprint("x", *capabilities.X)
		}
		return result(w, c, fmt.Sprintf(`{"tools":[{"name":%q}]}`, name))
	})
}

func (w *world) demand(f *Feed, v *variant.Record) string {
	w.Helper()
	fetch := f.List(revision.Tools).Demand(v)
	if fetch == nil {
		return "nobody asks"
	}
	e, err := fetch.Wait(w.Context())
	if err != nil {
		return err.Error()
	}
	return strings.Join(e.Body.Names(), " ")
}

// A feed asks as a client of another variant in a session that such a client
// opens, which it keeps.
func TestSessionsOfVariants(t *testing.T) {
	s := newServer(legacy)
	byCapabilities(s)
	table := variant.New([32]byte{})
	run(t, s, func(w *world) {
		f := w.start(legacy)
		w.wantItems(legacy, revision.Tools, "plain")
		first, second := table.Learn(nthClient(1)), table.Learn(nthClient(2))
		for range 3 {
			if a, b := w.demand(f, first), w.demand(f, second); a != "x1" || b != "x2" {
				t.Fatalf("got %q and %q", a, b)
			}
			w.outdate(revision.Tools)
		}
		w.wantCalls("initialize", 3)
		if got := s.Listening(); got != 3 {
			t.Errorf("the feed listens on %d streams, want 3", got)
		}
		var opened struct{ Name string }
		for _, c := range s.Bodies("initialize") {
			if string(c.Params.Capabilities) == `{"x":1}` {
				_ = json.Unmarshal(c.Params.ClientInfo, &opened)
			}
		}
		if opened.Name != "c" {
			t.Errorf("the session of a variant was opened as %q", opened.Name)
		}
		s.Forget()
		w.outdate(revision.Tools)
		w.after(variantRetry + time.Second)
		if got := w.demand(f, first); got != "x1" {
			w.after(variantRetry)
			if got = w.demand(f, first); got != "x1" {
				t.Errorf("after its session was lost, got %q", got)
			}
		}
		w.group.Stop()
		w.group.AwaitClosed()
		w.after(time.Second) // the upstream's side of the streams
		if left := s.Listening(); left != 0 || len(s.Sessions) != 0 {
			t.Errorf("%d streams and %d sessions are left", left, len(s.Sessions))
		}
	})
}

// Whoever makes up capabilities has the feed ask for eight variants at a time,
// and for another only when one of them has not been asked for in a minute.
func TestVariantsOfAFeedAreBounded(t *testing.T) {
	for era, r := range both {
		t.Run(era, func(t *testing.T) {
			s := newServer(r)
			table := variant.New([32]byte{})
			run(t, s, func(w *world) {
				f := w.start(r)
				for n := range maxVariants {
					if got := w.demand(f, table.Learn(nthClient(n))); got != "tools_a tools_b" {
						t.Fatalf("variant %d got %q", n, got)
					}
				}
				before := s.Count(list)
				for n := maxVariants; n < 100; n++ {
					if f.List(revision.Tools).Demand(table.Learn(nthClient(n))) != nil {
						t.Fatalf("the feed asks for variant %d", n)
					}
				}
				if got := s.Count(list); got != before {
					t.Errorf("made-up variants had the feed fetch %d lists", got-before)
				}
				w.after(variantIdle)
				if got := w.demand(f, table.Learn(nthClient(100))); got != "tools_a tools_b" {
					t.Errorf("once there is room, another variant got %q", got)
				}
				if len(f.conn.variants) != maxVariants {
					t.Errorf("the feed asks for %d variants", len(f.conn.variants))
				}
			})
		})
	}
}

// A fetch for a variant that fails is not repeated for each of its clients.
func TestFailingVariantIsLeftAlone(t *testing.T) {
	s := newServer(legacy)
	v := variant.New([32]byte{}).Learn(nthClient(1))
	run(t, s, func(w *world) {
		f := w.start(legacy)
		s.On("initialize", status(500))
		if _, err := f.List(revision.Tools).Demand(v).Wait(w.Context()); err == nil {
			t.Fatal("no session could be opened, and yet there is a list")
		}
		before := s.Count("initialize")
		for range 10 {
			if f.List(revision.Tools).Demand(v) != nil {
				t.Fatal("the feed asks again at once")
			}
		}
		w.after(variantRetry)
		s.On("initialize", nil)
		if got := w.demand(f, v); got != "tools_a tools_b" || s.Count("initialize") != before+1 {
			t.Errorf("later it got %q, after %d more sessions", got, s.Count("initialize")-before)
		}
	})
}

// What such a client was given itself has the last word: a list that the feed is
// given and no client was is nobody's.
func TestListsOfNoClient(t *testing.T) {
	s := newServer(modern)
	v := variant.New([32]byte{}).Learn(nthClient(1))
	run(t, s, func(w *world) {
		f := w.start(modern)
		own := w.wantItems(modern, revision.Tools, "tools_a", "tools_b")
		for n := range 3 {
			v.See(modern, revision.Tools, &cache.Seen{
				Items: [32]byte{9}, Mark: w.cache.Mark(revision.Tools), At: time.Now(), ByClient: true,
			}, own)
			if v.Hopeless(modern, revision.Tools, w.cache.Mark(revision.Tools)) {
				t.Fatalf("hopeless after %d conflicts", n)
			}
			if got := w.demand(f, v); got != errConflict.Error() {
				t.Errorf("got %q", got)
			}
		}
		if !v.Hopeless(modern, revision.Tools, w.cache.Mark(revision.Tools)) || v.Seen(modern, revision.Tools) != nil {
			t.Error("three lists of no client were not enough")
		}
		q := cache.Question{Revision: modern, Kind: revision.Tools, Variant: v.Key, Partition: cache.Anonymous}
		if got := w.cache.Get(q); got != nil {
			t.Errorf("a list of no client is kept: %v", got.Body.Names())
		}
	})
}

// Two lists of one variant are fetched in one session. While the server does not
// open it, both wait for no longer than the feed lasts.
func TestSessionOfAVariantHangs(t *testing.T) {
	s := newServer(legacy)
	byCapabilities(s)
	v := variant.New([32]byte{}).Learn(nthClient(1))
	run(t, s, func(w *world) {
		f := w.start(legacy)
		w.wantItems(legacy, revision.Tools, "plain")
		before := s.Count("initialize")
		s.On("initialize", func(_ http.ResponseWriter, r *http.Request, _ call) error {
			<-r.Context().Done()
			return r.Context().Err()
		})
		first, second := f.List(revision.Tools).Demand(v), f.List(revision.Prompts).Demand(v)
		if first == nil || second == nil {
			t.Fatal("nobody asks")
		}
		w.after(time.Second)
		began := time.Now()
		w.group.Stop()
		if took := time.Since(began); took > farewellTimeout {
			t.Errorf("stopping took %s", took)
		}
		for _, fetch := range []*Fetch{first, second} {
			if _, err := fetch.Wait(w.Context()); err == nil {
				t.Error("a list came from nowhere")
			}
		}
		if got := s.Count("initialize") - before; got != 1 {
			t.Errorf("%d sessions were to be opened", got)
		}
	})
}

// A variant's list that becomes empty without a word is believed after a while, as
// the feed's own is.
func TestVariantEmptyAllOfASudden(t *testing.T) {
	for name, blip := range map[string]bool{"a blip": true, "empty for good": false} {
		t.Run(name, func(t *testing.T) {
			s := newServer(legacy)
			byCapabilities(s)
			v := variant.New([32]byte{}).Learn(nthClient(1))
			run(t, s, func(w *world) {
				f := w.start(legacy)
				w.wantItems(legacy, revision.Tools, "plain")
				if got := w.demand(f, v); got != "x1" {
					t.Fatalf("got %q", got)
				}
				w.after(5*time.Minute + time.Second) // it has expired, and the feed's own was just fetched
				s.On(list, func(rw http.ResponseWriter, _ *http.Request, c call) error {
					return result(rw, c, `{"tools":[]}`)
				})
				for range 3 {
					if got := w.demand(f, v); got != errEmpty.Error() {
						t.Errorf("an empty list gave %q", got)
					}
					w.after(5 * time.Second)
				}
				want := ""
				if blip {
					byCapabilities(s)
					want = "plain" // nobody remembers what the session's client can do
				}
				if got := w.demand(f, v); got != want {
					t.Errorf("then it got %q, want %q", got, want)
				}
			})
		})
	}
}

// After a notice, lists of variants that are in use are fetched without anybody
// asking; after the stream of a variant has ended, in another session.
func TestVariantsAreRefreshed(t *testing.T) {
	s := newServer(legacy)
	byCapabilities(s)
	table := variant.New([32]byte{})
	run(t, s, func(w *world) {
		f := w.start(legacy)
		own := w.wantItems(legacy, revision.Tools, "plain")
		v := table.Learn(nthClient(1))
		v.See(legacy, revision.Tools, &cache.Seen{
			Items: [32]byte{9}, Mark: own.Mark, At: time.Now().Add(time.Second),
		}, own)
		if got := w.demand(f, v); got != "x1" {
			t.Fatalf("got %q", got)
		}
		q := cache.Question{Revision: legacy, Kind: revision.Tools, Variant: v.Key, Partition: cache.Anonymous}
		fresh := func() bool {
			e := w.cache.Get(q)
			return e != nil && w.cache.Freshness(e, time.Now()) == cache.Fresh
		}
		w.after(w.policy.Refresh)
		w.outdate(revision.Tools)
		if fresh() {
			t.Fatal("the list from before the notice is fresh")
		}
		w.after(w.policy.Refresh)
		if !fresh() {
			t.Error("the list is not fetched after a notice")
		}
		opened := s.Count("initialize")
		s.Cut()
		w.after(10 * time.Second)
		if got := s.Count("initialize") - opened; got < 1 {
			t.Errorf("after its stream has ended, %d sessions were opened for the variant", got)
		}
		w.after(2 * variantIdle) // nobody has come since
		before := s.Count(list)
		w.outdate(revision.Tools)
		w.after(time.Second)
		if got := s.Count(list) - before; got != 1 {
			t.Errorf("with nobody there, a notice took %d lists, want the feed's own", got)
		}
	})
}

// A list that a client was given while the feed asked as one may be newer than
// what the feed was given: it stays, and that is no contradiction.
func TestListGivenMeanwhile(t *testing.T) {
	s := newServer(modern)
	v := variant.New([32]byte{}).Learn(nthClient(1))
	run(t, s, func(w *world) {
		f := w.start(modern)
		own := w.wantItems(modern, revision.Tools, "tools_a", "tools_b")
		for range 5 {
			release := make(chan struct{})
			s.On(list, waitFor(release, s))
			fetch := f.List(revision.Tools).Demand(v)
			w.after(time.Second)
			given := &cache.Seen{Items: [32]byte{9}, Mark: w.cache.Mark(revision.Tools), At: time.Now(), ByClient: true}
			v.See(modern, revision.Tools, given, own)
			close(release)
			if e, err := fetch.Wait(w.Context()); err == nil {
				t.Errorf("got %v", e.Body.Names())
			}
			if v.Seen(modern, revision.Tools) != given || v.Hopeless(modern, revision.Tools, w.cache.Mark(revision.Tools)) {
				t.Fatal("what the client was given is forgotten, or its variant given up")
			}
			w.after(0)
		}
		s.On(list, hang)
		before := f.List(revision.Tools).Demand(v)
		w.after(time.Second)
		if f.List(revision.Tools).Demand(v) != before {
			t.Error("two fetches are under way for the same")
		}
		v.See(modern, revision.Tools, &cache.Seen{Mark: w.cache.Mark(revision.Tools), At: time.Now(), ByClient: true}, own)
		if f.List(revision.Tools).Demand(v) == before {
			t.Error("who comes after a client's list joins the fetch from before it")
		}
	})
}
