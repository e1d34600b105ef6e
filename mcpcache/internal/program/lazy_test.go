package program

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/requesthint"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/sse"
)

// memoryStore keeps records in memory.
type memoryStore struct {
	mu      sync.Mutex
	content []byte
	failure error
}

func (s *memoryStore) Load(context.Context) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.content == nil && s.failure == nil {
		return nil, fs.ErrNotExist
	}
	return s.content, s.failure
}

func (s *memoryStore) Save(_ context.Context, content []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failure == nil {
		s.content = content
	}
	return s.failure
}

// restarted ends a program, and returns it as it is after a restart of Caddy.
func (x *tested) restarted(store Store, kind Kind, limits Limits, traits ...string) *tested {
	x.t.Helper()
	x.Close()
	x.host.stopping.Wait()
	return newStoredProgram(x.t, store, kind, limits, traits...)
}

// Once a program has said what it is, also before a restart, clients open sessions without a
// process. The first request that needs one starts it, and it is told what it has missed.
func TestSessionsAreOpenedWithoutAProcess(t *testing.T) {
	for name, kind := range map[string]Kind{"each its own": {}, "shared": {Share: true}} {
		t.Run(name, func(t *testing.T) {
			store := new(memoryStore)
			x := newStoredProgram(t, store, kind, usual)
			x.visit().call("echo", `{"text":"x"}`)
			x = x.restarted(store, kind, usual)
			v, other := x.visit(), x.visit()
			if v.session == other.session {
				t.Error("two clients have one session")
			}
			if body := read(t, v.send(http.MethodPost, `{"jsonrpc":"2.0","id":9,"method":"ping"}`)); body != `{"jsonrpc":"2.0","id":9,"result":{}}` {
				t.Errorf("ping: %s", body)
			}
			if !kind.Share {
				v.send(http.MethodPost, `{"jsonrpc":"2.0","id":"l","method":"logging/setLevel","params":{"level":"error"}}`)
			}
			stream := v.send(http.MethodGet, "")
			defer stream.Body.Close()
			if n := len(x.started()); n != 0 {
				t.Fatalf("%d processes were started before one was needed", n)
			}
			if got := v.call("level", `{}`); !kind.Share && got != "error" {
				t.Errorf("the process knows the level %q", got)
			}
			if n := len(x.started()); n != 1 {
				t.Errorf("%d processes were started by one call", n)
			}
			event, err := sse.NewReader(stream.Body, 1<<20).Next()
			if err != nil || string(event.Data) != `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}` {
				t.Errorf("a client that listens is told %s, %v", event.Data, err)
			}
		})
	}
}

// What a program has said counts for clients that would be told the same, and with lazy alone.
func TestSessionsThatNeedAProcess(t *testing.T) {
	store := new(memoryStore)
	x := newStoredProgram(t, store, Kind{}, usual)
	x.visit()
	eager := usual
	eager.Lazy = false
	for name, tt := range map[string]struct {
		limits Limits
		hello  string
		starts int
	}{
		"again":              {usual, hello, 0},
		"a later release":    {usual, strings.Replace(hello, `"version":"1"`, `"version":"2"`, 1), 0},
		"written otherwise":  {usual, strings.Replace(hello, `{"sampling":{}}`, `{ "sampling" : {} }`, 1), 0},
		"another name":       {usual, strings.Replace(hello, `"name":"c"`, `"name":"d"`, 1), 1},
		"other capabilities": {usual, strings.Replace(hello, `"sampling"`, `"roots"`, 1), 1},
		"another revision":   {usual, strings.Replace(hello, "2025-11-25", "2025-06-18", 1), 1},
		"ambiguous":          {usual, strings.Replace(hello, `{"sampling":{}}`, `{"sampling":{},"sampling":{}}`, 1), 1},
		"not lazy":           {eager, hello, 1},
	} {
		t.Run(name, func(t *testing.T) {
			x.Close()
			x.host.stopping.Wait()
			copied := &memoryStore{content: store.content}
			y := newStoredProgram(t, copied, Kind{}, tt.limits)
			v := &visitor{tested: y}
			if res := v.send(http.MethodPost, tt.hello); res.StatusCode != http.StatusOK {
				t.Fatalf("initialize: %d %s", res.StatusCode, read(t, res))
			}
			if n := len(y.started()); n != tt.starts {
				t.Errorf("%d processes were started, want %d", n, tt.starts)
			}
		})
	}
}

// A program that is another one since, ends the sessions that were told of the old one.
func TestProgramsThatAreOthers(t *testing.T) {
	for name, kind := range map[string]Kind{"each its own": {}, "shared": {Share: true}} {
		t.Run(name, func(t *testing.T) {
			learned := filepath.Join(t.TempDir(), "learned")
			store := new(memoryStore)
			x := newStoredProgram(t, store, kind, usual, "learns", learned)
			x.visit()
			x = x.restarted(store, kind, usual, "learns", learned)
			v, other := x.visit(), x.visit()
			if err := os.WriteFile(learned, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			res := v.send(http.MethodPost, v.toolCall("echo", `{"text":"x"}`))
			if kind.Share { // the process is there, and the call was under way
				res = v.send(http.MethodPost, v.toolCall("echo", `{"text":"x"}`))
			}
			if body := read(t, res); res.StatusCode != http.StatusNotFound || !strings.Contains(body, "initialize") {
				t.Errorf("got %d %s", res.StatusCode, body)
			}
			if res := other.send(http.MethodPost, other.toolCall("echo", `{}`)); res.StatusCode != http.StatusNotFound {
				t.Errorf("another session is answered %d", res.StatusCode)
			}
			next := &visitor{tested: x}
			res = next.send(http.MethodPost, hello)
			if body := read(t, res); !strings.Contains(body, `"prompts"`) {
				t.Errorf("a new session is told %s", body)
			}
			next.session = res.Header.Get(sessionHeader)
			if got := next.call("echo", `{"text":"x"}`); got != "x" {
				t.Errorf("got %q", got)
			}
		})
	}
}

// A program that has sessions no more, after an update, ends those that there are, and is used by
// clients without one.
func TestProgramsThatBecomeModern(t *testing.T) {
	for name, kind := range map[string]Kind{"each its own": {}, "shared": {Share: true, Era: ""}} {
		t.Run(name, func(t *testing.T) {
			turned := filepath.Join(t.TempDir(), "turned")
			store := new(memoryStore)
			x := newStoredProgram(t, store, kind, usual, "curt", "turns", turned)
			x.visit()
			read(t, (&passer{tested: x}).must("server/discover", "")) // it has sessions
			x = x.restarted(store, kind, usual, "curt", "turns", turned)
			v := x.visit()
			if err := os.WriteFile(turned, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			read(t, v.send(http.MethodPost, v.toolCall("echo", `{"text":"x"}`)))
			if res := v.send(http.MethodPost, v.toolCall("echo", `{"text":"x"}`)); res.StatusCode != http.StatusNotFound {
				t.Errorf("a session of before: %d %s", res.StatusCode, read(t, res))
			}
			if body := read(t, (&visitor{tested: x}).send(http.MethodPost, hello)); !strings.Contains(body, `"message":"no sessions"`) {
				t.Errorf("who wants a session is told %s", body)
			}
			if got := (&passer{tested: x}).must("server/discover", ""); kind.Share == (got.StatusCode == http.StatusOK) {
				t.Errorf("without a session: %d %s", got.StatusCode, read(t, got))
			}
		})
	}
}

// What a program speaks is known after a restart: no process is started to find out.
func TestErasAreKept(t *testing.T) {
	for name, tt := range map[string]struct {
		traits []string
		status int
	}{
		"with sessions": {nil, http.StatusBadRequest},
		"modern":        {[]string{"modern"}, http.StatusOK},
		"modern, curt":  {[]string{"modern", "curt"}, http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			store := new(memoryStore)
			x := newStoredProgram(t, store, Kind{}, usual, tt.traits...)
			for round := range 2 {
				res := (&visitor{tested: x}).send(http.MethodPost, hello)
				if body := read(t, res); strings.Contains(body, `"error"`) != (tt.status == http.StatusOK) {
					t.Errorf("round %d: initialize: %s", round, body)
				}
				p := &passer{tested: x}
				res = p.must("server/discover", "")
				if body := read(t, res); res.StatusCode != tt.status {
					t.Errorf("round %d: %d %s", round, res.StatusCode, body)
				}
				if n := len(x.started()); (n > 0) != (round == 0) {
					t.Errorf("round %d: %d processes were started", round, n)
				}
				if round == 0 {
					x = x.restarted(store, Kind{}, usual, tt.traits...)
				}
			}
		})
	}
}

// Whoever listens for changes of lists keeps no process, and outlasts each. What may have changed
// meanwhile is told at the next start.
func TestSubscriptionsOutlastProcesses(t *testing.T) {
	store := new(memoryStore)
	x := newStoredProgram(t, store, Kind{}, usual, "modern")
	(&passer{tested: x}).call("echo")
	brief := usual
	brief.Idle = 50 * time.Millisecond
	x = x.restarted(store, Kind{}, brief, "modern")
	p := &passer{tested: x}
	res := p.must("subscriptions/listen", `"notifications":{"toolsListChanged":true,"promptsListChanged":true}`)
	defer res.Body.Close()
	events := sse.NewReader(res.Body, 1<<20)
	next := func(want string) {
		t.Helper()
		if event, err := events.Next(); err != nil || string(event.Data) != want {
			t.Fatalf("got %s, %v; want %s", event.Data, err, want)
		}
	}
	const changed = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"m1"}}}`
	next(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"m1"},"notifications":{"toolsListChanged":true}}}`)
	if n := len(x.started()); n != 0 {
		t.Fatalf("%d processes were started by a subscription", n)
	}
	for range 3 {
		p.call("echo")
		next(changed) // it may have, meanwhile
		await(t, "the process ends", func() bool { return x.running() == 0 })
	}
	p.call("change")
	next(changed)
	next(changed)
}

// A process goes on while its client listens for what becomes of a resource.
func TestWatchedResourcesKeepAProcess(t *testing.T) {
	for name, kind := range map[string]Kind{"each its own": {}, "shared": {Share: true}} {
		t.Run(name, func(t *testing.T) {
			brief := usual
			brief.Idle = 50 * time.Millisecond
			x := newProgramOf(t, kind, brief)
			v := x.visit()
			stream := v.send(http.MethodGet, "")
			read(t, v.send(http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"test://1"}}`))
			pid := v.call("pid", `{}`)
			other := newProgram(t, brief)
			other.visit().call("echo", `{}`)
			await(t, "a process that was used later ends", func() bool { return other.running() == 0 })
			if got := v.call("pid", `{}`); got != pid {
				t.Error("the process was stopped")
			}
			stream.Body.Close()
			await(t, "it is stopped once nobody listens", x.Asleep)
		})
	}
}

// A subscription that a process is started for, ends with it if it was not acknowledged.
func TestSubscriptionsThatNeedAProcess(t *testing.T) {
	x := newProgram(t, usual, "modern")
	p := &passer{tested: x}
	res := p.must("subscriptions/listen", `"notifications":{"toolsListChanged":true}`)
	events := sse.NewReader(res.Body, 1<<20)
	if event, err := events.Next(); err != nil || !strings.Contains(string(event.Data), "acknowledged") {
		t.Fatalf("got %s, %v", event.Data, err)
	}
	if got := p.call("listens"); got != "1" {
		t.Errorf("the process knows %s subscriptions", got)
	}
	res.Body.Close()
	await(t, "the process hears of the end", func() bool { return p.call("heard") == "1" })
}

// Records that cannot be kept, or read, are done without.
func TestRecordsThatFail(t *testing.T) {
	for name, store := range map[string]*memoryStore{
		"failing": {failure: errors.New("no room")}, "corrupt": {content: []byte("{")}, "of another version": {content: []byte(`{"version":2,"answers":{"x":null}}`)},
	} {
		t.Run(name, func(t *testing.T) {
			x := newStoredProgram(t, store, Kind{}, usual)
			for range 2 {
				x.visit().call("echo", `{"text":"x"}`)
			}
			want := 2
			if store.failure == nil {
				want = 1
			}
			if n := x.logs.FilterMessageSnippet("what the program").Len(); n != want && !strings.HasPrefix(name, "of another") {
				t.Errorf("%d warnings", n)
			}
		})
	}
}

// Only so many answers are kept, the last ones.
func TestRecordsAreBounded(t *testing.T) {
	x := newProgram(t, usual)
	for n := range maxRecords + 1 {
		key := recordKey(string(rune('A' + n)))
		x.records.note(key, nil, record{Result: []byte("{}")})
	}
	x.records.note("large", nil, record{Result: make([]byte, maxRecord+1)})
	x.records.note("none", errors.New("ambiguous"), record{Result: []byte("{}")})
	if n := len(x.records.answers); n != maxRecords {
		t.Errorf("%d are kept", n)
	}
	if _, ok := x.records.of("A", nil); ok {
		t.Error("the oldest one is kept")
	}
}

// upkeep sends a request for the upkeep of lists.
func (v *visitor) upkeep(body string) *http.Response {
	v.t.Helper()
	res, err := v.sendAs(requesthint.WithUpkeep(v.t.Context()), http.MethodPost, body, "application/json, text/event-stream")
	if err != nil {
		v.t.Fatal(err)
	}
	return res
}

// Fetching lists keeps no process running, however often that happens, but as long as clients use
// another one. The first use by a client is told, once.
func TestUpkeepKeepsNoProcess(t *testing.T) {
	brief := usual
	brief.Idle = 200 * time.Millisecond
	x := newProgram(t, brief)
	var woken atomic.Int32
	began := time.Now()
	stop := x.OnWake(func(since time.Time) {
		woken.Add(1)
		if since.Before(began) || since.After(time.Now()) {
			t.Errorf("the program began to wake at %s", since)
		}
	})
	const list = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	feed := x.visit()
	await(t, "the process ends, though lists are fetched", func() bool {
		if x.running() == 0 {
			return true
		}
		if len(x.started()) > 1 {
			t.Fatal("another process was started before the first one has ended")
		}
		read(t, feed.upkeep(list))
		return len(x.started()) > 1 // it had ended just before that
	})
	await(t, "it sleeps", x.Asleep)
	if n := woken.Load(); n != 0 {
		t.Errorf("%d clients were told of, and there was none", n)
	}
	client := x.visit()
	busy := client.send(http.MethodPost, client.toolCall("ask", `{}`))
	read(t, feed.upkeep(list))
	if n := x.running(); n != 2 {
		t.Errorf("%d processes run, want the feed's and the client's", n)
	}
	x.visit().call("echo", `{"text":"x"}`) // its process ends after that of the feed would
	await(t, "a process that was used later ends", func() bool { return x.running() < 3 })
	if n := x.running(); n != 2 {
		t.Errorf("%d processes run while a client uses one", n)
	}
	busy.Body.Close()
	client.send(http.MethodDelete, "")
	await(t, "both end", x.Asleep)
	if n := woken.Load(); n != 1 {
		t.Errorf("told %d times that a client uses the program", n)
	}
	stop()
	x.visit().call("echo", `{}`)
	if n := woken.Load(); n != 1 {
		t.Error("told of who did not want to know any more")
	}
}

// Who looks after lists says what has changed, to those who are told of such changes.
func TestAnnouncedChanges(t *testing.T) {
	x := newProgram(t, usual)
	defer x.OnWake(func(time.Time) {})()
	v := x.visit()
	stream := v.send(http.MethodGet, "")
	defer stream.Body.Close()
	x.Announce("notifications/prompts/list_changed") // which the program does not
	x.Announce("notifications/tools/list_changed")
	if event, err := sse.NewReader(stream.Body, 1<<20).Next(); err != nil || string(event.Data) != `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}` {
		t.Errorf("told %s, %v", event.Data, err)
	}
}
