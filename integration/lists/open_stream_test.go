package lists

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// leavesOpen has a server answer tools/list on an event stream that it leaves open until
// the client is gone (toolhive#2403, vscode#309104).
func leavesOpen(t *testing.T, w *caddytest.World) {
	t.Helper()
	w.SetSSE(true)
	w.SetScript(scripted.ToolsList, func(x *scripted.Exchange) {
		x.Default()
		select {
		case <-x.Done():
		case <-t.Context().Done():
		}
	})
}

// listOnce lists, once, as a client that goes on once the answer is there, and leaves then.
func listOnce(t *testing.T, c *fixture.Raw, method, params string) *fixture.Answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*fixture.Deadline)
	defer cancel()
	more := make(http.Header)
	if c.Modern() {
		more.Set("Mcp-Method", method)
	}
	res, err := c.Open(ctx, http.MethodPost, strings.NewReader(fixture.Message(c.NextID(), method, c.Params(params))), more)
	if err != nil {
		t.Fatalf("listing: %v", err)
	}
	defer res.Body.Close()
	a := &fixture.Answer{Status: res.StatusCode, Header: res.Header}
	for lines := bufio.NewReader(res.Body); !bytes.Contains(a.Body, []byte(`"jsonrpc"`)) || !bytes.HasSuffix(a.Body, []byte("\n\n")); {
		line, err := lines.ReadBytes('\n')
		a.Body = append(a.Body, line...)
		if err != nil {
			break
		}
	}
	return a
}

// TestAnswerOnAStreamThatStaysOpen has a client list right after its own call has changed
// the list, which nobody announces: it is given the new list as soon as that is there,
// although the stream with it does not end, and so is each time after that.
func TestAnswerOnAStreamThatStaysOpen(t *testing.T) {
	caddytest.EachEra(t, func(t *testing.T, revision string) {
		for name, options := range map[string][]string{"plain": nil, "rules": {"deny tools hidden"}, "pages": {"page_size 2"}} {
			t.Run(name, func(t *testing.T) { seesItsOwnChanges(t, revision, options) })
		}
	})
}

func seesItsOwnChanges(t *testing.T, revision string, options []string) {
	w := caddytest.NewUpstream(t)
	w.SetCapabilities(`{"tools":{}}`)
	var version atomic.Int64
	w.SetScript("tools/call", func(x *scripted.Exchange) {
		w.Mark(scripted.ToolsList, fmt.Sprintf("change %d", version.Add(1)))
		x.Default()
	})
	leavesOpen(t, w)
	w.Start(options...)
	c := w.ClientAs(revision, "Bearer a")
	fixture.Await(t, "the first list", func() bool { return listOnce(t, c, scripted.ToolsList, "").Status == http.StatusOK })
	fixture.Await(t, "a change that is seen at once", func() bool {
		c.Call("tools/call", c.Params(`"name":"item-0000"`))
		return caddytest.MarkOf(listOnce(t, c, scripted.ToolsList, ""), scripted.ToolsList) == fmt.Sprintf("change %d", version.Load())
	})
	for range 10 {
		c.Call("tools/call", c.Params(`"name":"item-0000"`))
		a := listOnce(t, c, scripted.ToolsList, "")
		if want := fmt.Sprintf("change %d", version.Load()); caddytest.MarkOf(a, scripted.ToolsList) != want {
			t.Errorf("after %s: %s", want, a)
		}
	}
}
