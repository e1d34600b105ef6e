package integration

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/redistest"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// redisProxy stands between Caddy and a Redis, and can say something itself.
type redisProxy struct {
	addr string

	mu      sync.Mutex
	clients map[net.Conn]bool
	fails   func(net.Conn) // the next announcement, which does not reach Redis
}

func newRedisProxy(t *testing.T, to string) *redisProxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	p := &redisProxy{addr: listener.Addr().String(), clients: make(map[net.Conn]bool)}
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go p.serve(client, to)
		}
	}()
	return p
}

// serve passes on what the two say, until one of them ends.
func (p *redisProxy) serve(client net.Conn, to string) {
	defer client.Close()
	redis, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer redis.Close()
	p.mu.Lock()
	p.clients[client] = true
	p.mu.Unlock()
	go func() {
		_, _ = io.Copy(redis, &asked{client, p})
		_ = redis.Close()
	}()
	_, _ = io.Copy(client, redis)
	p.mu.Lock()
	delete(p.clients, client)
	p.mu.Unlock()
}

// asked is what a client asks Redis for, without announcements that fail.
type asked struct {
	net.Conn
	*redisProxy
}

// Read implements [io.Reader].
func (a *asked) Read(b []byte) (int, error) {
	for {
		n, err := a.Conn.Read(b)
		if !bytes.Contains(b[:n], []byte(`{"kinds":`)) {
			return n, err
		}
		a.mu.Lock()
		fail := a.fails
		a.fails = nil
		a.mu.Unlock()
		if fail == nil {
			return n, err
		}
		fail(a.Conn)
	}
}

// failNext has the next announcement fail.
func (p *redisProxy) failNext(fail func(net.Conn)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fails = fail
}

// cutAll cuts all connections.
func (p *redisProxy) cutAll(net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.clients {
		_ = c.Close()
	}
}

// say says something on every connection, and returns on how many.
func (p *redisProxy) say(text string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.clients {
		_, _ = io.WriteString(c, text)
	}
	return len(p.clients)
}

// TestFleetSurvivesOddLines has a proxy in front of Redis send lines of its own, as proxies do
// before they close a connection. Caddy keeps serving its lists, and joins the other Caddy again.
func TestFleetSurvivesOddLines(t *testing.T) {
	redis := redistest.Start(t)
	between := newRedisProxy(t, redis.Addr)
	w := newUpstream(t)
	w.SetHints(publicHour)
	w.host.Start()
	a := startInstance(t, w.host.URL, "store redis redis://"+between.addr)
	b := startInstance(t, w.host.URL, "store redis redis://"+redis.Addr)
	c := fixture.NewModern(t, a.URL, "")
	c.Settle(toolsList)
	together := func() bool {
		status := a.status()
		return status != nil && status.Fleet.State == "together" && len(status.Fleet.Members) == 2
	}
	for _, text := range []string{"-ERR max number of clients reached\r\n", "-LOADING Redis is loading\r\n", "+OK\r\n", "$-77\r\n", "*9223372036854775807\r\n", "HTTP/1.0 503\r\n\r\n", "\x00\x00\r\n"} {
		await(t, "both to be together", together)
		if n := between.say(text); n == 0 {
			t.Errorf("there is no connection on which %q could be said", text)
		}
		if a := c.List(toolsList); !a.CacheStatus().Hit {
			t.Errorf("after %q a list gave %s", text, describe(a))
		}
	}
	await(t, "both to be together again", together)
	w.SetList(toolsList, scripted.Items(toolsList, "new", 4))
	await(t, "the feeds' streams", func() bool { return w.Streams(scripted.Feeds) >= 2 })
	w.Changed(scripted.Feeds, toolsList)
	for _, i := range []*instance{a, b} {
		fixture.NewModern(t, i.URL, "").AwaitList(toolsList, "the new list", func(a *fixture.Answer) bool { return len(a.Items("tools")) == 4 })
	}
}

// TestFleetAnnouncesAgain has the announcement of a change fail, of which the server tells one client
// alone: the client hears of it once the other Caddy has heard, so that no list there is old.
func TestFleetAnnouncesAgain(t *testing.T) {
	redis := redistest.Start(t)
	between := newRedisProxy(t, redis.Addr)
	for name, fail := range map[string]func(net.Conn){
		"all connections break": between.cutAll,
		"redis is loading":      func(c net.Conn) { _, _ = io.WriteString(c, "-LOADING Redis is loading the dataset in memory\r\n") },
	} {
		t.Run(name, func(t *testing.T) {
			w := newUpstream(t)
			w.SetHints(publicHour)
			w.host.Start()
			s := &sharing{world: w, redis: redis}
			var all []*audience
			for _, addr := range []string{between.addr, redis.Addr} {
				one := startInstance(t, w.host.URL, "store redis redis://"+addr, "refresh 10ms")
				one.awaitFleet("together")
				all = append(all, s.hear(addr, one))
			}
			awaitHits(all, "v1")
			for round := range pick(6, 30) {
				await(t, "both to be together", func() bool {
					status := all[0].status()
					return status != nil && status.Fleet.State == "together" && len(status.Fleet.Members) == 2
				})
				mark := fmt.Sprint("round ", round)
				between.failNext(fail)
				s.change(mark, all[0])
				all[1].wantNew(t, mark)
				awaitHits(all, mark)
			}
		})
	}
}
