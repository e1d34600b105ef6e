// The race detector needs several times as much memory.

//go:build !race

package operate

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// readBuffer is the receive buffer that callers ask for, in bytes: what slow
// ones have not read is to be nowhere but in the server.
const readBuffer = 256 << 10

// askAtOnce has all callers of the crowd list, and checks that each is given
// its list whole.
func (c *measuredCaddy) askAtOnce() {
	c.t.Helper()
	var halfway, done sync.WaitGroup
	halfway.Add(c.callers)
	failures := make(chan error, c.callers)
	for caller := range c.callers {
		done.Go(func() {
			if err := c.ask(caller, &halfway); err != nil {
				failures <- fmt.Errorf("caller %d: %w", caller, err)
			}
		})
	}
	done.Wait()
	close(failures)
	for err := range failures {
		c.t.Error(err)
	}
}

// ask has one caller list. The others wait for it halfway if they are slow.
func (c *measuredCaddy) ask(caller int, halfway *sync.WaitGroup) error {
	arrived := sync.OnceFunc(halfway.Done)
	defer arrived()
	res, err := c.open(caller)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	late := strings.Contains(res.Header.Get("Cache-Status"), "detail=partial") // the server's list has not come in time
	if c.slower && (late || res.StatusCode == http.StatusServiceUnavailable && res.Header.Get("Retry-After") != "") {
		c.refused.Add(1)
		return nil
	}
	first := c.size - c.size/8
	if c.slower {
		first = c.size / 8
	}
	n, err := io.CopyN(io.Discard, res.Body, int64(first))
	arrived()
	if err != nil {
		return fmt.Errorf("reading %s %v, after %d bytes: %w", res.Status, res.Header, n, err)
	}
	if c.slow || c.slower {
		halfway.Wait()
	}
	rest, err := io.Copy(io.Discard, res.Body)
	if err != nil {
		return fmt.Errorf("reading the rest: %w", err)
	}
	if least := c.size - c.size/8; n+rest < int64(least) || !c.differ && n+rest < int64(c.size) { // a tool may be hidden
		return fmt.Errorf("was given %d bytes of %d", n+rest, c.size)
	}
	return nil
}

// open has one caller list, and returns the beginning of the answer.
func (c *measuredCaddy) open(caller int) (*http.Response, error) {
	conn, err := c.connect()
	if err != nil {
		return nil, err
	}
	if _, err := io.WriteString(conn, c.request(caller)); err != nil {
		return nil, fmt.Errorf("sending request: %w", err)
	}
	return answerOn(conn)
}

// answerOn returns the beginning of the answer on a connection.
func answerOn(conn net.Conn) (*http.Response, error) {
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return nil, fmt.Errorf("reading answer: %w", err)
	}
	return res, nil
}

// connect opens the connection of a caller. The caller's system receives little that the caller has not read.
func (c *measuredCaddy) connect() (net.Conn, error) {
	conn, err := net.Dial("tcp", c.addr)
	if err != nil {
		return nil, fmt.Errorf("connecting: %w", err)
	}
	context.AfterFunc(c.t.Context(), func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(8 * fixture.Deadline)); err != nil {
		return nil, fmt.Errorf("setting deadline: %w", err)
	}
	if err := conn.(*net.TCPConn).SetReadBuffer(readBuffer); err != nil {
		return nil, fmt.Errorf("setting buffer: %w", err)
	}
	return conn, nil
}

// request returns what one caller sends.
func (c *measuredCaddy) request(caller int) string {
	capabilities, header, accept := "", "", "application/json, text/event-stream"
	if c.differ {
		header = fmt.Sprintf("X-Caller: %d\r\n", caller)
	}
	if c.variants {
		capabilities = fmt.Sprintf(`"experimental":{"caller-%d":{}}`, caller)
	}
	if c.own {
		header = fmt.Sprintf("Authorization: Bearer %d\r\n", caller)
	}
	if c.prefersEvents {
		accept = "text/event-stream, application/json;q=0.5"
	}
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{`+
		`"io.modelcontextprotocol/protocolVersion":%q,"io.modelcontextprotocol/clientCapabilities":{%s}}}}`,
		scripted.Modern, capabilities)
	return fmt.Sprintf("POST /mcp HTTP/1.1\r\nHost: %s\r\nUser-Agent: %s/memory\r\nConnection: close\r\n"+
		"Content-Type: application/json\r\nAccept: %s\r\nMcp-Protocol-Version: %s\r\nMcp-Method: tools/list\r\n%s"+
		"Content-Length: %d\r\n\r\n%s", c.addr, scripted.ClientAgent, accept, scripted.Modern, header, len(body), body)
}

// status returns a size that the system knows of the process, in bytes.
func (c *measuredCaddy) status(name string) int64 {
	c.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.process.PID))
	if err != nil {
		c.t.Fatal(err)
	}
	_, value, found := strings.Cut(string(status), "\n"+name+":")
	value, _, _ = strings.Cut(value, "kB")
	kilobytes, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
	if !found || err != nil {
		c.t.Fatalf("no %s in %s", name, status)
	}
	return kilobytes << 10
}

// peak returns the most that the process has needed since resetPeak.
func (c *measuredCaddy) peak() int64 { return c.status("VmHWM") }

// resetPeak has what the process needs now count as the most.
func (c *measuredCaddy) resetPeak() {
	c.t.Helper()
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", c.process.PID), []byte("5"), 0); err != nil {
		c.t.Fatal(err)
	}
}
