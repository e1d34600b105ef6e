package mcpcache

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache/cachetest"
)

// nowhere is a response writer that keeps nothing but the status.
type nowhere struct {
	header http.Header
	status int
}

func (n *nowhere) Header() http.Header         { return n.header }
func (n *nowhere) WriteHeader(status int)      { n.status = status }
func (n *nowhere) Write(p []byte) (int, error) { return len(p), nil }

// BenchmarkToolkitHit measures a list of 100 tools from memory: that of one server, and
// those of several in one list.
func BenchmarkToolkitHit(b *testing.B) {
	const tools = 100
	one := mustProvision(b, config("one", "admit", `"all"`))
	defer one.cancel()
	one.one.backend.Cache.Pin(cachetest.Tools(b, tools))
	b.Run("one server", func(b *testing.B) { benchmarkHit(b, one) })
	for _, n := range []int{1, 10, 50} {
		servers := make([]string, n)
		for i := range servers {
			servers[i] = serverNamed(fmt.Sprint("s", i))
		}
		l := mustProvision(b, toolkitNamed("bench", servers))
		for _, s := range l.several.servers {
			s.backend.Cache.Pin(cachetest.Tools(b, tools/n))
		}
		b.Run(fmt.Sprintf("toolkit of %d", n), func(b *testing.B) { benchmarkHit(b, l) })
		l.cancel()
	}
	servers := []string{serverNamed("own", "headers", `["X-User"]`)} // which may show each caller another list
	for i := range 9 {
		servers = append(servers, serverNamed(fmt.Sprint("s", i)))
	}
	l := mustProvision(b, toolkitNamed("bench", servers, "admit", `"all"`))
	defer l.cancel()
	for _, s := range l.several.servers {
		s.backend.Cache.Pin(cachetest.Tools(b, tools/10))
	}
	b.Run("toolkit of 10 for a caller", func(b *testing.B) { benchmarkHit(b, l) })

	rules := `[{"effect":"deny","kind":"tools","items":["s1__*"],"match":[{"method":["POST"]}]}]`
	servers[0] = serverNamed("s9")
	ruled := mustProvision(b, toolkitNamed("bench", servers, "rules", rules))
	defer ruled.cancel()
	for _, s := range ruled.several.servers {
		s.backend.Cache.Pin(cachetest.Tools(b, tools/10))
	}
	b.Run("toolkit of 10 under a rule", func(b *testing.B) { benchmarkHit(b, ruled) })
}

func benchmarkHit(b *testing.B, l *loaded) {
	r := requestOf(b, "tools/list")
	body, err := io.ReadAll(r.Body)
	if err != nil {
		b.Fatal(err)
	}
	reader := bytes.NewReader(body)
	r.ContentLength, r.Body = int64(len(body)), io.NopCloser(reader)
	r.Header.Del("X-Client") // a server may show such clients another list
	r.Header.Set("X-User", "a-caller")
	w := &nowhere{header: make(http.Header)}
	for b.Loop() {
		reader.Reset(body)
		clear(w.header)
		if err := l.ServeHTTP(w, r, nil); err != nil || w.status != http.StatusOK {
			b.Fatal(w.status, err)
		}
	}
	if status := w.header.Get("Cache-Status"); !strings.Contains(status, "; hit;") {
		b.Fatal(status)
	}
}
