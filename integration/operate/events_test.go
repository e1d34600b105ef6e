package operate

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

func init() {
	caddy.RegisterModule(eventRecorder{})
}

// eventRecorder is an event handler as another module would have it.
type eventRecorder struct{}

// recordedEvents are the events of the running test.
var recordedEvents struct {
	sync.Mutex
	all []caddy.Event
}

// CaddyModule returns the Caddy module information.
func (eventRecorder) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "events.handlers.mcp_cache_test", New: func() caddy.Module { return new(eventRecorder) }}
}

// UnmarshalCaddyfile implements [caddyfile.Unmarshaler].
func (*eventRecorder) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	return nil
}

// Handle implements [caddyevents.Handler].
func (*eventRecorder) Handle(_ context.Context, e caddy.Event) error {
	recordedEvents.Lock()
	defer recordedEvents.Unlock()
	recordedEvents.all = append(recordedEvents.all, e)
	return nil
}

// eventsOf returns the data of the events of that name so far.
func eventsOf(name string) []map[string]any {
	recordedEvents.Lock()
	defer recordedEvents.Unlock()
	var found []map[string]any
	for _, e := range recordedEvents.all {
		if e.Name() == name {
			found = append(found, e.Data)
		}
	}
	return found
}

// startSubscribed is like [caddytest.StartProxy], with a subscriber to the events.
func startSubscribed(t *testing.T, w *caddytest.World, options ...string) {
	t.Helper()
	recordedEvents.Lock()
	recordedEvents.all = nil
	recordedEvents.Unlock()
	w.Proxy = caddytest.StartProxy(t, "respond soon 503")
	reloadSubscribed(t, w, options...)
}

func reloadSubscribed(t *testing.T, w *caddytest.World, options ...string) {
	t.Helper()
	_, port, err := net.SplitHostPort(w.Proxy.Addr)
	if err != nil {
		t.Fatal(err)
	}
	subscribed := strings.Replace(caddytest.Globals(w.Proxy.LogFile), "persist_config off",
		"persist_config off\n\tevents {\n\t\ton mcp_cache.changed mcp_cache_test\n\t\ton mcp_cache.state mcp_cache_test\n\t}", 1)
	site := fmt.Sprintf("http://:%s {\n\tbind 127.0.0.1\n%s\n}\n", port, caddytest.Directive(w.Host.URL, options...))
	if err := caddytest.Load("text/caddyfile", []byte(subscribed+site)); err != nil {
		t.Fatal(err)
	}
}

// TestEventsReachSubscribers subscribes as another module would: changes of
// lists and of states arrive, after reloads too.
func TestEventsReachSubscribers(t *testing.T) {
	w := caddytest.NewUpstream(t)
	w.Host.Start()
	startSubscribed(t, w, "refresh 10ms")
	for _, revision := range caddytest.Revisions {
		w.Warm(revision)
	}
	became := func(era, state string) bool {
		return slices.ContainsFunc(eventsOf("mcp_cache.state"), func(data map[string]any) bool {
			return data["handler"] == "mcp_cache" && data["era"] == era && data["to"] == state
		})
	}
	for _, era := range []string{"legacy", "modern"} {
		fixture.Await(t, "the events of hydrating", func() bool { return became(era, "hydrating") && became(era, "ready") })
	}
	changed := func(names ...string) func() bool {
		return func() bool {
			count := 0
			for _, data := range eventsOf("mcp_cache.changed") {
				if data["kind"] == "tools" && slices.Equal(data["added"].([]string), names[:1]) &&
					slices.Equal(data["removed"].([]string), names[1:2]) && slices.Equal(data["changed"].([]string), names[2:]) {
					count++
				}
			}
			return count == len(caddytest.Revisions)
		}
	}
	for i := range 2 {
		items := scripted.Items(scripted.ToolsList, fmt.Sprint("v", 2+i), 4+i)
		w.SetList(scripted.ToolsList, items[1+i:])
		w.Changed(scripted.Feeds, scripted.ToolsList)
		added, removed := fmt.Sprintf("item-%04d", 3+i), fmt.Sprintf("item-%04d", i)
		fixture.Await(t, "the event of a change", changed(added, removed, fmt.Sprintf("item-%04d", 1+i), fmt.Sprintf("item-%04d", 2+i)))
		reloadSubscribed(t, w, "refresh 10ms", fmt.Sprintf("ttl %dm", 6+i)) // the feeds live on
	}
	w.SetScript(scripted.ToolsList, scripted.ErrorObject)
	w.Changed(scripted.Feeds, scripted.ToolsList)
	for _, era := range []string{"legacy", "modern"} {
		fixture.Await(t, "the event of a failure", func() bool { return became(era, "degraded") })
	}
}

// TestRequestsAreTold looks at what handlers around this one, the access log
// and the debug log are told of requests.
func TestRequestsAreTold(t *testing.T) {
	w := caddytest.NewUpstream(t)
	w.Host.Start()
	w.Proxy = caddytest.StartProxy(t, `log
log_append told {http.mcp_cache.outcome}
route {
header >X-Told "{http.mcp_cache.outcome}|{http.mcp_cache.method}|{http.mcp_cache.kind}|{http.mcp_cache.era}|{http.mcp_cache.revision}|{http.mcp_cache.tool}"
`+caddytest.Directive(w.Host.URL)+"\n}")
	caddytest.EachEra(t, func(t *testing.T, revision string) {
		era := map[bool]string{true: "modern", false: "legacy"}[revision == scripted.Modern]
		c := w.Warm(revision)
		for _, told := range []struct {
			answer       *fixture.Answer
			header       string
			method, tool string
			outcome      string
		}{
			{c.List(scripted.TemplatesList), "hit|resources/templates/list|resource_templates|" + era + "|" + revision + "|", scripted.TemplatesList, "", "hit"},
			{
				c.Call("tools/call", c.Params(`"name":"item-0001"`)),
				"bypass|tools/call||" + era + "|" + revision + "|item-0001", "tools/call", "item-0001", "bypass",
			},
			{c.Call("no/such", c.Params("")), "bypass|no/such||" + era + "|" + revision + "|", "other", "", "bypass"},
		} {
			if got := told.answer.Header.Get("X-Told"); got != told.header {
				t.Errorf("a response header is %q, want %q", got, told.header)
			}
			fixture.Await(t, "the access log", func() bool {
				return slices.ContainsFunc(caddytest.AccessLog(t, w.Proxy), func(e map[string]any) bool {
					return e["mcp_method"] == told.method && e["mcp_tool"] == told.tool && e["mcp_outcome"] == told.outcome &&
						e["mcp_era"] == era && e["told"] == told.outcome
				})
			})
		}
	})
	log := w.Proxy.Log()
	for _, want := range []string{`"msg":"request decided"`, `"msg":"feed changed state"`, `"msg":"list refreshed"`} {
		if !strings.Contains(log, want) {
			t.Errorf("the log has no %s", want)
		}
	}
}

// TestTraceContextPasses sends a trace context in the headers and in _meta: the
// upstream gets both as they are.
func TestTraceContextPasses(t *testing.T) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	w := caddytest.NewWorld(t)
	caddytest.EachEra(t, func(t *testing.T, revision string) {
		c := w.Warm(revision)
		for _, method := range []string{"tools/call", scripted.ToolsList} {
			params := strings.Replace(c.Params(`"name":"item-0000"`), `"_meta":{`, `"_meta":{"traceparent":"`+parent+`",`, 1)
			if !c.Modern() {
				params = `{"name":"item-0000","_meta":{"traceparent":"` + parent + `"}}`
			}
			body := fixture.Message(c.NextID(), method, params)
			c.Post(body, http.Header{"Mcp-Method": {method}, "Mcp-Name": {"item-0000"}, "Traceparent": {parent}, "Tracestate": {"a=b"}})
			arrived, ok := w.Host.Last()
			if !ok || string(arrived.Body) != body || arrived.Header.Get("Traceparent") != parent || arrived.Header.Get("Tracestate") != "a=b" {
				t.Errorf("%s arrived as %s with %v", method, arrived.Body, arrived.Header)
			}
		}
	})
}

// Interface guards
var (
	_ caddyevents.Handler   = (*eventRecorder)(nil)
	_ caddyfile.Unmarshaler = (*eventRecorder)(nil)
)
