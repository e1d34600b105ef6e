// The race detector needs several times as much memory.

//go:build !race

package operate

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
)

// TestMemoryOfProgramsIsBounded has clients send large messages to a program, and not read its large
// answers. Caddy stays within what it needs at rest, the memory and an allowance.
func TestMemoryOfProgramsIsBounded(t *testing.T) {
	skipUnlessMeasured(t)
	const memory = 64
	command, _ := caddytest.MisbehavingProgram(t)
	another, _ := caddytest.MisbehavingProgram(t)
	sites := map[string]string{
		"plain":    caddytest.ProgramUpstream(command, fmt.Sprintf("memory %dMiB", memory)),
		"in front": fmt.Sprintf("mcp_cache {\n%s\nmemory %dMiB\nadmit all\n}", caddytest.ProgramUpstream(command), memory),
		"several": fmt.Sprintf("mcp_cache {\nserver one {\n%s\n}\nserver two {\n%s\n}\nmemory %dMiB\nadmit all\n}",
			caddytest.ProgramUpstream(command), caddytest.ProgramUpstream(another), memory),
	}
	for way, site := range sites {
		for name, burden := range map[string]func(*measuredCaddy) (served int64){
			"uploads of strangers": func(c *measuredCaddy) int64 { return c.upload("", http.StatusRequestEntityTooLarge) },
			"uploads of a session that has ended": func(c *measuredCaddy) int64 {
				return c.upload("Mcp-Session-Id: ended\r\n", http.StatusNotFound)
			},
			"uploads": func(c *measuredCaddy) int64 {
				return c.upload("Mcp-Session-Id: "+c.openSession()+"\r\n", http.StatusOK)
			},
			"answers that nobody reads": (*measuredCaddy).leaveUnread,
		} {
			if way == "several" && strings.HasPrefix(name, "uploads") {
				continue // max_call is less
			}
			t.Run(name+", "+way, func(t *testing.T) {
				c := &measuredCaddy{t: t, addr: fixture.FreeAddr(t), crowd: crowd{several: way == "several"}}
				c.run(site)
				fixture.Await(t, "Caddy", func() bool {
					conn, err := net.Dial("tcp", c.addr)
					if err == nil {
						conn.Close()
					}
					return err == nil
				})
				c.openSession()
				idle := c.rest()
				c.resetPeak()
				served := burden(c)
				peak, bound := c.peak(), idle+int64(memory)<<20+allowance
				t.Logf("at rest %d MiB, at most %d MiB, bound %d MiB; %d were served", idle>>20, peak>>20, bound>>20, served)
				if peak > bound {
					t.Errorf("it needed %d MiB more than at rest, %d MiB more than it may", (peak-idle)>>20, (peak-bound)>>20)
				}
				if served == 0 {
					t.Error("nobody was answered as is right")
				}
			})
		}
	}
}

// send sends a message on a connection of its own, and returns the beginning of the answer.
func (c *measuredCaddy) send(header, body string) (*http.Response, error) {
	conn, err := c.connect()
	if err != nil {
		return nil, err
	}
	go func() { // who is refused is answered before that is done
		_, _ = fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nContent-Type: application/json\r\n"+
			"Accept: application/json, text/event-stream\r\n%sContent-Length: %d\r\n\r\n%s", c.addr, header, len(body), body)
	}()
	return answerOn(conn)
}

// openSession opens a session with the program, and returns its id.
func (c *measuredCaddy) openSession() string {
	c.t.Helper()
	res, err := c.send("", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"memory","version":"1"}}}`)
	if err != nil || res.StatusCode != http.StatusOK {
		c.t.Fatalf("initialize: %v, %v", res, err)
	}
	res.Body.Close()
	return res.Header.Get("Mcp-Session-Id")
}

// upload has 40 clients send 31 MiB each at once. It returns how many were answered with that status;
// others may have been told to try again.
func (c *measuredCaddy) upload(header string, status int) int64 {
	c.t.Helper()
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pid","arguments":{"text":"` + strings.Repeat("x", 31<<20) + `"}}}`
	var all sync.WaitGroup
	var served atomic.Int64
	for range 40 {
		all.Go(func() {
			res, err := c.send(header, body)
			switch {
			case err != nil && status != http.StatusOK: // it was reset while it wrote
			case err != nil:
				c.t.Error(err)
			case res.StatusCode == status:
				served.Add(1)
			case res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "":
				c.t.Errorf("got %s", res.Status)
			}
			if err == nil {
				_, _ = io.Copy(io.Discard, res.Body)
			}
		})
	}
	all.Wait()
	return served.Load()
}

// leaveUnread has 60 clients call a tool whose answer has 8 MiB, and not read it. It returns how many
// answers have begun once that is more than there is memory for: then some must have ended.
func (c *measuredCaddy) leaveUnread() int64 {
	c.t.Helper()
	session, name := c.openSession(), "echo"
	if c.several {
		name = "one__echo"
	}
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":{"size":%d}}}`, name, 8<<20)
	var begun atomic.Int64
	for range 60 {
		go func() {
			if res, err := c.send("Mcp-Session-Id: "+session+"\r\nMcp-Protocol-Version: 2025-11-25\r\n", body); err == nil && beginning(res.Body) {
				begun.Add(1)
			}
		}()
	}
	if !fixture.Poll(8*fixture.Deadline, time.Second, func() bool { return begun.Load() >= 14 }) {
		c.t.Errorf("%d answers have begun", begun.Load())
	}
	return begun.Load()
}

// beginning reads the beginning of an answer, and reports whether it is a result.
func beginning(body io.Reader) bool {
	text := make([]byte, 0, 200)
	for !strings.Contains(string(text), `"result":`) {
		if _, err := io.ReadFull(body, text[len(text):len(text)+1]); err != nil || len(text) == cap(text)-1 {
			return false
		}
		text = text[:len(text)+1]
	}
	return true
}
