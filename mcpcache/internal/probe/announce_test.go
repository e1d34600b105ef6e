package probe

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// TestAcknowledgements looks at servers that acknowledge notifications/initialized in
// their own way.
func TestAcknowledgements(t *testing.T) {
	for name, c := range map[string]struct {
		script scripted.Script
		says   string
	}{
		"as it should be": {nil, ""},
		"200 and JSON":    {func(x *scripted.Exchange) { x.Raw(200, "application/json", "{}") }, "HTTP 200 (application/json)"},
		"200 and HTML":    {scripted.HTML, "HTTP 200 (text/html)"},
		"204":             {func(x *scripted.Exchange) { x.W.WriteHeader(http.StatusNoContent) }, "HTTP 204 (no content type)"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScripted()
			s.SetScript(initialized, c.script)
			r := run(t, options(t, serve(t, s)))
			if len(r.Eras) != 2 || r.Eras[1].Acknowledgement != c.says {
				t.Fatalf("the report is %s", asJSON(t, r))
			}
			if c.says != "" {
				wantWords(t, r, "- It acknowledges notifications/initialized with "+c.says+" (legacy), not with 202. The cache takes any 2xx.")
			}
		})
	}
	t.Run("a redirect", func(t *testing.T) {
		s := newScripted()
		s.SetScript(initialized, scripted.Status(http.StatusFound))
		if r := run(t, options(t, serve(t, s))); len(r.FailedEras) != 1 || r.FailedEras[0].Code != "redirect" {
			t.Errorf("the report is %s", asJSON(t, r))
		}
	})
}

// TestSilenceAcknowledges looks at a server that never answers the notification, and ends
// a session whose notification is dropped.
func TestSilenceAcknowledges(t *testing.T) {
	s := newScripted()
	var early, dropped atomic.Int64
	ended := make(chan string, 100) // sessions that were closed in an orderly way
	s.SetScript(initialized, func(x *scripted.Exchange) {
		<-x.Done()
		dropped.Add(1)
	})
	o := options(t, serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete {
			early.Add(max(0, dropped.Load()-int64(len(ended))))
			defer func() {
				ended <- r.Header.Get("Mcp-Session-Id")
			}()
		}
		s.ServeHTTP(w, r)
	})))
	o.patience = 10 * time.Millisecond
	r := run(t, o)
	if len(r.Eras) != 2 || r.Eras[1].Acknowledgement != unanswered || len(r.FailedEras) > 0 || list(t, r, "tools").Failure != "" {
		t.Errorf("the report is %s", asJSON(t, r))
	}
	wantWords(t, r, "- It does not answer notifications/initialized (legacy). The cache goes on after 2 seconds, so each of its sessions opens that much later. "+
		"Have the server answer 202.")
	fixture.Await(t, "every notification to be dropped", func() bool { return dropped.Load() == int64(len(ended)) && len(ended) > 0 })
	if early.Load() > 0 {
		t.Errorf("%d notifications were dropped before their sessions were closed", early.Load())
	}
}
