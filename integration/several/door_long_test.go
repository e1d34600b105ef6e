package several

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// begin sends the beginning of a POST of that many bytes, whose rest never comes, and returns the answer.
func begin(t *testing.T, addr string, header http.Header, body string, length int) *http.Response {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	var request strings.Builder
	fmt.Fprintf(&request, "POST /mcp HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n", addr, length)
	_ = header.Write(&request) // nothing in memory fails
	if _, err := io.WriteString(conn, request.String()+"\r\n"+body); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	return res
}

// TestToolkitDoorComesBeforeLongCalls: long bodies, which take of the memory that all callers share, are not read
// before the door has let the caller in. It is asked in the era that the header says.
func TestToolkitDoorComesBeforeLongCalls(t *testing.T) {
	p := newDoored(t, append([]string{scripted.Modern}, legacyRevisions...), "max_request 1KiB")
	const length, comes = 1 << 20, 300 << 10 // net/http itself waits for the first 256 KiB before it writes a refusal
	beginning := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"all__item-0000","arguments":{"text":"` + strings.Repeat("x", comes)
	for name, c := range map[string]struct {
		header http.Header
		modern bool // the door is asked
	}{
		"modern":           {http.Header{"Mcp-Protocol-Version": {scripted.Modern}, "Mcp-Method": {"tools/call"}, "Mcp-Name": {"all__item-0000"}}, true},
		"legacy":           {http.Header{"Mcp-Protocol-Version": {"2025-06-18"}, "Mcp-Session-Id": {"junk"}}, false},
		"no revision":      {http.Header{"Mcp-Session-Id": {"junk"}}, false},
		"unknown revision": {http.Header{"Mcp-Protocol-Version": {"2099-01-01"}}, true},
	} {
		for _, credential := range []string{"", "Bearer bad of " + name} {
			header := c.header.Clone()
			if credential != "" {
				header.Set("Authorization", credential)
			}
			p.door.Host.Forget()
			res := begin(t, p.Addr, header, beginning, length)
			if res.StatusCode != http.StatusUnauthorized || res.Header.Get("WWW-Authenticate") == "" || !strings.Contains(res.Header.Get("Cache-Status"), "detail=admission") {
				t.Fatalf("%s with %q: got %d, %v", name, credential, res.StatusCode, res.Header)
			}
			for _, r := range p.door.Host.Requests(func(r *fixture.Request) bool { return r.Header.Get("Authorization") == credential }) {
				if modern := r.Header["Mcp-Method"] != nil; credential != "" && modern != c.modern {
					t.Errorf("%s: the door was asked with %v", name, r.Header)
				}
			}
		}
	}
	if n := len(clientsOf(p.all)) + len(clientsOf(p.guarded)); n > 0 {
		t.Errorf("the other servers were sent %d requests", n)
	}
}

// TestToolkitDoorReadsLongCallsOfItsCallers: the long calls of those whom the door has let in, or lets in now, are
// handed on. What was refused before the door, still is: short bodies, and those that are longer than max_call.
func TestToolkitDoorReadsLongCallsOfItsCallers(t *testing.T) {
	p := newDoored(t, append([]string{scripted.Modern}, legacyRevisions...), "max_request 1KiB", "max_call 64KiB")
	for _, revision := range []string{"2025-06-18", scripted.Modern} {
		c := fixture.New(t, p.URL, revision, "Bearer good")
		for range 2 {
			a := c.Call("tools/call", c.Params(`"name":"all__item-0000","arguments":{"text":"`+strings.Repeat("x", 32<<10)+`"}`))
			if a.Part("result") == nil {
				t.Errorf("%s: a long call gave %s: %s", revision, a, a.Body)
			}
		}
		asked := func() int {
			return len(p.door.Host.Requests(func(r *fixture.Request) bool { return r.Header.Get("Authorization") == "Bearer bad" }))
		}
		before, stranger := asked(), fixture.NewModern(t, p.URL, "Bearer bad")
		stranger.Revision = revision
		for body, want := range map[string]int{
			"[" + fixture.Message("1", scripted.ToolsList, stranger.Params("")) + "]": http.StatusBadRequest,
			`{"jsonrpc":"2.0",`:         http.StatusBadRequest,
			strings.Repeat(" ", 65<<10): http.StatusRequestEntityTooLarge,
		} {
			if a := stranger.Post(body, http.Header{"Mcp-Method": {scripted.ToolsList}}); a.Status != want || a.CacheStatus().Detail != "refused" {
				t.Errorf("%s: a stranger's %.20q gave %s: %s", revision, body, a, a.Body)
			}
		}
		if after := asked(); after != before {
			t.Errorf("%s: the door was asked %d times about what is not valid", revision, after-before)
		}
	}
}
