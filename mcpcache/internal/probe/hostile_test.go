package probe

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// TestHostileServers examines servers that give more than anybody wants: the
// examination ends, and the report stays short and printable.
func TestHostileServers(t *testing.T) {
	tools := func(script scripted.Script) func(*scripted.Server) {
		return func(s *scripted.Server) { s.SetScript(toolsList, script) }
	}
	name := strings.Repeat(`\u001b]0;evil\u0007\u202e`, 200)
	for what, arrange := range map[string]func(*scripted.Server){
		"events without end": tools(func(x *scripted.Exchange) {
			for x.R.Context().Err() == nil {
				x.Event(`{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"` + strings.Repeat("x", 4096) + `"}}`)
			}
		}),
		"one event without end": tools(func(x *scripted.Exchange) {
			x.Event(`{}`)
			for x.R.Context().Err() == nil {
				x.Bytes("data: " + strings.Repeat("x", 4096) + "\n")
			}
		}),
		"requests without end": tools(func(x *scripted.Exchange) {
			for x.R.Context().Err() == nil {
				x.Event(`{"jsonrpc":"2.0","id":1,"method":"ping"}` + strings.Repeat(" ", 1024))
			}
		}),
		"a body without end": tools(func(x *scripted.Exchange) {
			x.W.Header().Set("Content-Type", "application/json")
			for x.R.Context().Err() == nil {
				_, _ = io.WriteString(x.W, strings.Repeat(" ", 4096))
			}
		}),
		"a body that unfolds": tools(func(x *scripted.Exchange) {
			x.W.Header().Set("Content-Type", "application/json")
			x.W.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(x.W)
			zeros := strings.NewReader(strings.Repeat(" ", 1<<20))
			for range 8 {
				_, _ = zeros.Seek(0, io.SeekStart)
				if _, err := io.Copy(z, zeros); err != nil {
					return
				}
			}
			_ = z.Close()
		}),
		"names without end": func(s *scripted.Server) {
			items := make(scripted.Page, 0, 100)
			for i := range cap(items) {
				items = append(items, fmt.Sprintf(`{"name":"%s%d","inputSchema":{}}`, name, i))
			}
			for _, method := range scripted.ListMethods() {
				s.SetList(method, scripted.Items(method, name, 2))
			}
			// Another list each time, so that the names are named.
			n := 0
			s.SetScript(toolsList, func(x *scripted.Exchange) {
				n++
				s.SetList(toolsList, items[n%50:50+n%50])
				x.Default()
			})
		},
		"a talkative self": func(s *scripted.Server) {
			s.SetScript("initialize", func(x *scripted.Exchange) {
				x.Result(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"` + name + `","version":"` + name + `"}}`)
			})
			s.SetScript("server/discover", func(x *scripted.Exchange) {
				x.Error(http.StatusBadRequest, -32022, strings.Repeat("no ", 10_000), `{"supported":["`+strings.Repeat(name+`","`, 10)+`"]}`)
			})
		},
		"a talkative error": tools(func(x *scripted.Exchange) {
			x.Raw(http.StatusOK, "application/json", x.Envelope("{}")[:1]+`"jsonrpc":"2.0","id":`+string(x.ID)+`,"error":{"code":-1,"message":"`+name+`"}}`)
		}),
		"an ID without end": func(s *scripted.Server) {
			s.SetSessions(false) // any will do
			s.SetScript("initialize", func(x *scripted.Exchange) {
				x.W.Header().Set("Mcp-Session-Id", strings.Repeat("x", maxSessionID+1))
				x.Result(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{}}}`)
			})
		},
		"a subscription to everything": func(s *scripted.Server) {
			s.SetScript("subscriptions/listen", func(x *scripted.Exchange) {
				for x.R.Context().Err() == nil {
					x.Event(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
				}
			})
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := newScripted()
			arrange(s)
			o := options(t, serve(t, s))
			o.MaxList = 4 << 20
			r := run(t, o)
			text, forPrograms := r.Text(), asJSON(t, r)
			if len(text) > 16<<10 || len(forPrograms) > 32<<10 {
				t.Errorf("the report has %d bytes, %d for programs", len(text), len(forPrograms))
			}
			if strings.ContainsAny(text+forPrograms, "\x1b\x07\u202e\u009b") || strings.Contains(forPrograms, `\u001b`) {
				t.Errorf("the report steers the terminal: %q", text)
			}
			if what == "a subscription to everything" && r.Eras[0].Stream != StreamRefused {
				t.Errorf("a stream that never says that it listens is %s", r.Eras[0].Stream)
			}
			if what == "an ID without end" && len(r.Eras) != 1 {
				t.Errorf("a session with that ID was opened: %s", text)
			}
		})
	}
}
