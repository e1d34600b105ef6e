package redistest

import (
	"bytes"
	"io"
	"net"
	"sync"
	"testing"
)

// Proxy stands between Caddy and a Redis, as a name does whose Redis may change. It can say
// something itself.
type Proxy struct {
	Addr, URL string

	mu      sync.Mutex
	to      string
	clients map[net.Conn]bool
	failing string         // what a client sends that does not reach Redis; "": all does
	fail    func(net.Conn) // is called with that client instead
}

// NewProxy starts a proxy to an address. It ends with the test.
func NewProxy(t testing.TB, to string) *Proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	p := &Proxy{Addr: listener.Addr().String(), to: to, clients: make(map[net.Conn]bool)}
	p.URL = "redis://" + p.Addr
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go p.serve(client)
		}
	}()
	return p
}

// Lead has new connections lead to another address. Those that are open stay where they are.
func (p *Proxy) Lead(to string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.to = to
}

// serve passes on what the two say, until one of them ends.
func (p *Proxy) serve(client net.Conn) {
	defer client.Close()
	p.mu.Lock()
	to := p.to
	p.mu.Unlock()
	redis, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer redis.Close()
	p.mu.Lock()
	p.clients[client] = true
	p.mu.Unlock()
	go func() {
		_, _ = io.Copy(redis, &sender{client, p})
		_ = redis.Close()
	}()
	_, _ = io.Copy(client, redis)
	p.mu.Lock()
	delete(p.clients, client)
	p.mu.Unlock()
}

// Say says something on every connection, and returns on how many.
func (p *Proxy) Say(text string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.clients {
		_, _ = io.WriteString(c, text)
	}
	return len(p.clients)
}

// FailNext has fail called instead of passing on what a client sends next that has this text in it.
func (p *Proxy) FailNext(text string, fail func(net.Conn)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failing, p.fail = text, fail
}

// Cut cuts all connections.
func (p *Proxy) Cut(net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.clients {
		_ = c.Close()
	}
}

// failed reports whether something that a client sends does not reach Redis.
func (p *Proxy) failed(client net.Conn, sent []byte) bool {
	p.mu.Lock()
	fail := p.fail
	is := p.failing != "" && bytes.Contains(sent, []byte(p.failing))
	if is {
		p.failing, p.fail = "", nil
	}
	p.mu.Unlock()
	if is {
		fail(client)
	}
	return is
}

// sender reads from a client, and leaves out the text that FailNext keeps from Redis.
type sender struct {
	net.Conn

	proxy *Proxy
}

// Read implements [io.Reader].
func (s *sender) Read(p []byte) (int, error) {
	for {
		n, err := s.Conn.Read(p)
		if err != nil || !s.proxy.failed(s.Conn, p[:n]) {
			return n, err
		}
	}
}
