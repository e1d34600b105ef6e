package lists

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// TestEventsLeaveAtOnce sends each event only after the client has got the one
// before, through encode and log: one that is held back ends the test.
func TestEventsLeaveAtOnce(t *testing.T) {
	for name, encoding := range map[string][]string{"plain": {}, "compressed": {"gzip"}} {
		t.Run(name, func(t *testing.T) {
			w := caddytest.NewUpstream(t)
			got := make(chan struct{})
			w.SetScript("tools/call", func(x *scripted.Exchange) {
				for i := range 10 {
					x.Event(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":%d}}`, i))
					select {
					case <-got:
					case <-x.Done():
						return
					}
				}
				x.Result(`{"content":[]}`)
			})
			w.Host.Start()
			w.Proxy = caddytest.StartProxy(t, siteLog+"encode zstd gzip\nroute {\n"+caddytest.Directive(w.Host.URL)+"\n}")
			caddytest.EachEra(t, func(t *testing.T, revision string) {
				w := w.On(t)
				c := w.Client(revision)
				c.Header["Accept-Encoding"] = encoding
				s := c.Stream(http.MethodPost, fixture.Message("1", "tools/call", c.Params(`"name":"item-0000"`)),
					http.Header{"Mcp-Method": {"tools/call"}, "Mcp-Name": {"item-0000"}})
				for i := range 10 {
					if e, ok := s.Next(); !ok || !strings.Contains(e.Data, fmt.Sprintf(`"progress":%d}`, i)) {
						t.Fatalf("event %d is %q, %v", i, e.Data, ok)
					}
					got <- struct{}{}
				}
				if e, ok := s.Next(); !ok || !strings.Contains(e.Data, `"content"`) {
					t.Errorf("last event is %q, %v", e.Data, ok)
				}
			})
		})
	}
}

// TestNoticeStreamsPass opens the streams of each era: their headers come
// before any event, notices come as sent, and a lost stream is resumed.
func TestNoticeStreamsPass(t *testing.T) {
	w := caddytest.NewWorld(t)
	t.Run("GET", func(t *testing.T) {
		c := w.Client(scripted.LatestLegacy)
		s := c.Get("")
		own := scripted.Session(c.Session)
		fixture.Await(t, "the stream", func() bool { return w.Streams(own) == 1 })
		for i := range 3 {
			w.Notify(own, "notifications/message", fmt.Sprintf(`{"level":"info","data":%d}`, i))
		}
		first, _ := s.Next()
		s.Close()
		fixture.Await(t, "the stream's end", func() bool { return w.Streams(own) == 0 })
		resumed := c.Get(first.ID)
		for i := 1; i < 3; i++ {
			if e, ok := resumed.Next(); !ok || !strings.Contains(e.Data, fmt.Sprintf(`"data":%d}`, i)) || e.ID != fmt.Sprint(i+1) {
				t.Errorf("resumed event %d is %+v, %v", i, e, ok)
			}
		}
		if r, ok := w.Host.Last(); !ok || r.Header.Get("Last-Event-ID") != first.ID {
			t.Errorf("upstream got Last-Event-ID %q, want %q", r.Header.Get("Last-Event-ID"), first.ID)
		}
	})
	t.Run("listen", func(t *testing.T) {
		c := w.Client(scripted.Modern)
		s := c.Listen("test://a")
		w.Notify(scripted.Clients, "notifications/resources/updated", `{"uri":"test://a/b"}`)
		if e := s.Await("notifications/resources/updated"); !strings.Contains(e.Data, `"uri":"test://a/b"`) {
			t.Errorf("notice is %s", e.Data)
		}
		w.EndStreams(scripted.Clients)
		if e, ok := s.Next(); !ok || !strings.Contains(e.Data, `"resultType":"complete"`) {
			t.Errorf("last event is %q, %v", e.Data, ok)
		}
		s.AwaitEnd()
	})
}

// TestServerAsksClient lets the upstream ask a legacy client something on the
// stream of a call: the answer finds its way back.
func TestServerAsksClient(t *testing.T) {
	w := caddytest.NewWorld(t)
	w.SetScript("tools/call", func(x *scripted.Exchange) {
		if m, ok := x.Ask("elicitation/create", `{"message":"who?"}`); ok {
			x.Result(`{"answer":` + string(m.Body) + `}`)
		}
	})
	c := w.Client(scripted.LatestLegacy)
	call := c.Stream(http.MethodPost, fixture.Message("1", "tools/call", `{"name":"item-0000"}`), nil)
	question := &fixture.Answer{Body: []byte(call.Await("elicitation/create").Data)}
	answer := `{"jsonrpc":"2.0","id":` + string(question.Part("id")) + `,"result":{"action":"accept"}}`
	if a := c.Post(answer, nil); a.Status != http.StatusAccepted {
		t.Errorf("answering gave %s", a)
	}
	if e, ok := call.Next(); !ok || !strings.Contains(e.Data, answer) {
		t.Errorf("the call ended with %q, %v", e.Data, ok)
	}
}

// TestLargeBodiesStream sends a body above max_request: its first bytes reach
// the upstream while the last are still unsent, and all arrive as they were.
func TestLargeBodiesStream(t *testing.T) {
	for name, known := range map[string]bool{"with a length": true, "chunked": false} {
		t.Run(name, func(t *testing.T) {
			w := caddytest.NewWorld(t, "max_request 8KiB")
			w.SetScript("tools/call", func(x *scripted.Exchange) {
				sum := sha256.Sum256(x.Body)
				x.Result(fmt.Sprintf(`{"sum":%q}`, hex.EncodeToString(sum[:])))
			})
			c := w.Client(scripted.Modern)
			text := strings.Repeat("0123456789abcdef", 1<<16)
			body := fixture.Message("1", "tools/call", c.Params(`"name":"item-0000","arguments":{"x":"`+text+`"}`))
			first, rest := body[:64<<10], body[64<<10:]

			r, send := io.Pipe()
			var reader io.Reader = r
			if known {
				reader = sized{r, int64(len(body))}
			}
			before := w.Host.BytesRead()
			answered := make(chan *fixture.Answer, 1)
			go func() {
				a, err := c.TryBody(t.Context(), reader, http.Header{"Mcp-Method": {"tools/call"}, "Mcp-Name": {"item-0000"}})
				if err != nil {
					t.Errorf("sending a large body: %v", err)
				}
				answered <- a
			}()
			write(t, send, first)
			fixture.Await(t, "the body's beginning", func() bool { return w.Host.BytesRead()-before >= int64(len(first))-4096 })
			write(t, send, rest)
			if err := send.Close(); err != nil {
				t.Fatal(err)
			}
			sum := sha256.Sum256([]byte(body))
			if a := <-answered; a == nil || string(a.Part("result", "sum")) != fmt.Sprintf("%q", hex.EncodeToString(sum[:])) {
				t.Errorf("another body arrived: %s", a)
			}
		})
	}
}

// sized is a body of known length.
type sized struct {
	io.Reader
	length int64
}

// Length is looked for by [fixture.Raw].
func (s sized) Length() int64 { return s.length }

func write(t *testing.T, w io.Writer, s string) {
	t.Helper()
	if _, err := io.WriteString(w, s); err != nil {
		t.Fatal(err)
	}
}

// TestMaxRequestBound sends list requests of max_request bytes, which is looked
// into, and of one byte more, which is not.
func TestMaxRequestBound(t *testing.T) {
	const bound = 1 << 10
	w := caddytest.NewWorld(t, "max_request 1KiB")
	caddytest.EachEra(t, func(t *testing.T, revision string) {
		w := w.On(t)
		c := w.Warm(revision)
		ask := func(size int) *fixture.Answer {
			body := fixture.Message("1", scripted.ToolsList, c.Params(""))
			body += strings.Repeat(" ", size-len(body))
			return c.Post(body, http.Header{"Mcp-Method": {scripted.ToolsList}})
		}
		caddytest.WantHit(t, ask(bound), scripted.ToolsList, "v1")
		a := ask(bound + 1)
		caddytest.WantForwarded(t, a)
		if caddytest.MarkOf(a, scripted.ToolsList) != "v1" {
			t.Errorf("a body above the bound gave %s", a)
		}
	})
}

// TestEndedSessionsAreGone ends a session that is served from the cache: its
// lists are then refused as the upstream refuses them.
func TestEndedSessionsAreGone(t *testing.T) {
	w := caddytest.NewWorld(t)
	c := w.Warm(scripted.LatestLegacy)
	if a := c.Delete(); a.Status != http.StatusNoContent {
		t.Fatalf("DELETE gave %s", a)
	}
	caddytest.WantEnded(t, c)
}
