// The race detector needs several times as much memory.

//go:build !race

package operate

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// allowance is what the process may need besides the memory of the
// configuration: of Caddy itself and of connections, in bytes.
const allowance = 64 << 20

// TestMemoryIsBounded has many callers be given long lists at once, in the ways
// that need the most. The process stays within what it needs at rest, the
// configured memory and an allowance.
func TestMemoryIsBounded(t *testing.T) {
	skipUnlessMeasured(t)
	const memory = 64
	tests := []struct {
		name string
		crowd
	}{
		{"connections", crowd{callers: 400, size: 1 << 20, own: true, hold: true}},
		{"connections, length unknown", crowd{callers: 400, size: 1 << 20, own: true, hold: true, chunked: true}},
		{"connections, event streams", crowd{callers: 400, size: 1 << 20, own: true, hold: true, events: true}},
		{"connections, again and again", crowd{callers: 400, size: 1 << 20, own: true, rounds: 3}},
		{"slow readers", crowd{callers: 60, size: 8 << 20, own: true, slow: true}},
		{"slow readers of hits", crowd{callers: 60, size: 8 << 20, slow: true}},
		{"slow readers of hits, event streams", crowd{callers: 60, size: 8 << 20, slow: true, prefersEvents: true}},
		{"tiny items", crowd{callers: 24, size: 24 << 20, tiny: true, variants: true}},
		{"tiny items, event streams", crowd{callers: 24, size: 24 << 20, tiny: true, variants: true, events: true}},
		{"fewer tiny items", crowd{callers: 24, size: 4 << 20, tiny: true, variants: true}},
		{"slow readers, rules", crowd{callers: 40, size: 8 << 20, slower: true, differ: true}},
		{"slow readers, several servers", crowd{callers: 40, size: 8 << 20, slower: true, several: true}},
		{"slow readers, several servers, lists of their own", crowd{callers: 40, size: 8 << 20, slower: true, own: true, several: true}},
		{"slow readers, several servers, rules", crowd{callers: 40, size: 8 << 20, slower: true, differ: true, several: true}},
		{"slow readers, several servers, many rules", crowd{callers: 250, size: 3 << 20, slower: true, differ: true, several: true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newMeasuredCaddy(t, tt.crowd, fmt.Sprintf("memory %dMiB", memory))
			idle := c.rest()
			c.resetPeak()
			for range max(1, tt.rounds) {
				c.askAtOnce()
			}
			peak, bound := c.peak(), idle+int64(memory)<<20+allowance
			t.Logf("at rest %d MiB, at most %d MiB, bound %d MiB; no list for %d of %d callers", idle>>20, peak>>20, bound>>20, c.refused.Load(), c.callers)
			if c.refused.Load() == int64(c.callers) {
				t.Error("nobody is given a list")
			}
			if peak > bound {
				t.Errorf("it needed %d MiB more than at rest, %d MiB more than it may", (peak-idle)>>20, (peak-bound)>>20)
			}
		})
	}
}

// skipUnlessMeasured skips a test that measures the memory of a process, unless that is wanted.
func skipUnlessMeasured(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells how much memory a process has needed")
	}
	if !caddytest.Long() {
		t.Skip("measures the memory of a process: -long")
	}
}

// crowd are callers that come at once.
type crowd struct {
	callers int
	rounds  int // how often they come, if more than once
	size    int // of the list, in bytes
	// own gives each caller credentials and a list of its own.
	own bool
	// variants gives each caller capabilities of its own.
	variants bool
	// tiny makes the list one of items that have hardly more than a name.
	tiny bool
	// hold keeps the end of each answer back until all have begun.
	hold bool
	// slow readers stop before the end until all have come so far.
	slow bool
	// slower ones stop at the beginning, so that most of the list is in Caddy. They may be
	// told that there is no memory for their list, or that it has not come in time.
	slower bool
	// several puts the server behind an endpoint of several.
	several bool
	// differ has rules hide another tool from each caller.
	differ bool
	// chunked and events are how the server answers.
	chunked, events bool
	// prefersEvents says that the callers would rather have event streams.
	prefersEvents bool
}

// list returns the list of one caller; all are of one size.
func (c crowd) list(caller int) []byte {
	list := make([]byte, 0, c.size+1<<10)
	list = append(list, `{"resultType":"complete","ttlMs":3600000,"cacheScope":"`...)
	if c.own {
		list = append(list, `private","tools":[`...)
	} else {
		list = append(list, `public","tools":[`...)
	}
	padding := strings.Repeat("text that describes ", 50)
	for i := 0; len(list) < c.size; i++ {
		if i > 0 {
			list = append(list, ',')
		}
		if c.tiny {
			list = append(strconv.AppendInt(append(list, `{"name":"`...), int64(i), 36), `"}`...)
			continue
		}
		list = fmt.Appendf(list, `{"name":"tool-%d-%d","description":"%s","inputSchema":{"type":"object"}}`, caller, i, padding)
	}
	return append(list, "]}"...)
}

// measuredCaddy is a Caddy in a process of its own, in front of a server that
// gives long lists.
type measuredCaddy struct {
	crowd

	t           testing.TB
	process     *caddytest.Process
	addr, admin string
	// begun counts the answers under way, if they are held.
	begun sync.WaitGroup
	// refused counts the callers who were given no list.
	refused atomic.Int64
}

func newMeasuredCaddy(t testing.TB, crowd crowd, options ...string) *measuredCaddy {
	t.Helper()
	c := &measuredCaddy{t: t, crowd: crowd, addr: fixture.FreeAddr(t)}
	c.begun.Add(crowd.callers)
	server := scripted.New()
	server.SetRevisions(scripted.Modern)
	server.SetCapabilities(`{"tools":{}}`)
	everybodys := crowd.list(0)
	server.SetScript(scripted.ToolsList, func(x *scripted.Exchange) {
		if crowd.own && x.Auth == "" {
			x.Result(`{"resultType":"complete","ttlMs":3600000,"cacheScope":"private","tools":[]}`)
			return
		}
		list := everybodys
		if crowd.own {
			number, _ := strconv.Atoi(strings.TrimPrefix(x.Auth, "Bearer "))
			list = crowd.list(number)
		}
		c.answer(x, list)
	})
	host := fixture.NewHost(t, server)
	c.run(crowd.handler(host.URL, options))
	fixture.Await(t, "the feed", func() bool {
		if crowd.several {
			list, _, code := caddytest.Run(t, "mcp-cache", "list", "tools", "--address", c.admin)
			return code == 0 && (strings.Contains(list, "tool-0-0") || crowd.own)
		}
		table, _, code := caddytest.Run(t, "mcp-cache", "status", "--address", c.admin)
		return code == 0 && strings.Contains(table, "ready") && caddytest.Fields(table, "tools") != nil
	})
	return c
}

// run starts Caddy with a handler.
func (c *measuredCaddy) run(handler string) {
	c.t.Helper()
	c.admin = fixture.FreeAddr(c.t)
	caddyfile := filepath.Join(c.t.TempDir(), "Caddyfile")
	_, port, _ := strings.Cut(c.addr, ":")
	config := fmt.Sprintf("{\n\tadmin %s\n\tpersist_config off\n\tgrace_period 1s\n\tstorage file_system %s\n}\nhttp://:%s {\n\tbind 127.0.0.1\n\t%s\n}\n",
		c.admin, c.t.TempDir(), port, handler)
	if err := os.WriteFile(caddyfile, []byte(config), 0o600); err != nil {
		c.t.Fatal(err)
	}
	c.process = caddytest.StartProcess(c.t, nil, "run", "--config", caddyfile)
}

// handler returns the directive in front of the crowd's server.
func (c crowd) handler(url string, options []string) string {
	var matchers []string
	if c.differ {
		for caller := range c.callers {
			matchers = append(matchers, fmt.Sprintf("@caller-%d header X-Caller %d", caller, caller))
			options = append(options, fmt.Sprintf("deny @caller-%d tools *tool-0-%d", caller, caller))
		}
	}
	options = append(options, "store off")
	if !c.several {
		if c.differ {
			options = append(options, "admit all", "harmless X-Caller")
		}
		return strings.Join(append(matchers, caddytest.Directive(url, options...)), "\n")
	}
	server := fmt.Sprintf("server one %s", url)
	if c.own {
		server += " {\nauthorization forward\n}"
	}
	return strings.Join(slices.Concat(matchers, []string{"mcp_cache {"}, options, []string{server, "}"}), "\n")
}

// answer writes a list as the crowd's server does.
func (c *measuredCaddy) answer(x *scripted.Exchange, list []byte) {
	const held = 512
	before, after := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":`, x.ID), "}"
	header := x.W.Header()
	switch {
	case c.events:
		header.Set("Content-Type", "text/event-stream")
		before, after = "event: message\ndata: "+before, after+"\n\n"
	default:
		header.Set("Content-Type", "application/json")
		if !c.chunked {
			header.Set("Content-Length", strconv.Itoa(len(before)+len(list)+len(after)))
		}
	}
	write := func(p []byte) { _, _ = x.W.Write(p) } // a caller that has gone is noticed elsewhere
	write([]byte(before))
	if c.hold && !x.Feed {
		write(list[:len(list)-held])
		list = list[len(list)-held:]
		_ = http.NewResponseController(x.W).Flush()
		c.begun.Done()
		c.begun.Wait()
	}
	write(list)
	write([]byte(after))
}

// rest waits until the process has needed no less for a second, and returns what
// it needs.
func (c *measuredCaddy) rest() int64 {
	const looks = 20
	least, quiet := c.status("VmRSS"), 0
	// Memory goes back to the system in the background, and nobody says when.
	fixture.Poll(fixture.Deadline, time.Second/looks, func() bool {
		now := c.status("VmRSS")
		if quiet++; now < least {
			least, quiet = now, 0
		}
		return quiet == looks
	})
	return least
}
