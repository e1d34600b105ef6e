package program

import (
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/sse"
)

// One process serves all sessions: what belongs to one of them reaches no other.
func TestSharedProcess(t *testing.T) {
	x := newProgramOf(t, Kind{Share: true}, usual)
	a, b := x.visit(), x.visit()
	if a.session == b.session || a.call("pid", `{}`) != b.call("pid", `{}`) {
		t.Error("two sessions have two processes")
	}
	calls := map[*visitor]*http.Response{}
	for _, v := range []*visitor{a, b} { // of equal ids
		calls[v] = v.send(http.MethodPost, strings.ReplaceAll(v.toolCall("cancelled", `{"text":"`+v.session+`"}`), "c2", "same"))
	}
	a.send(http.MethodPost, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"same"}}`)
	if got := readMessages(t, calls[a]); !strings.Contains(got[len(got)-1], "cancelled") {
		t.Errorf("the call that was cancelled ends with %q", got)
	}
	got := readMessages(t, calls[b])
	if last := got[len(got)-1]; !strings.Contains(last, `"id":"same","result"`) || text(t, last) != b.session {
		t.Errorf("the other call ends with %q", got)
	}
	if got := a.call("ask", `{}`); !strings.Contains(got, "several clients share this process") {
		t.Errorf("what the process asks is answered %s", got)
	}
	if got := readMessages(t, a.send(http.MethodPost, a.toolCall("log", `{}`))); len(got) != 1 {
		t.Errorf("a log message of somebody is told: %q", got)
	}
	if res := a.send(http.MethodDelete, ""); res.StatusCode != http.StatusNoContent {
		t.Errorf("DELETE: %d", res.StatusCode)
	}
	b.call("echo", `{}`)
	if n := len(x.started()); n != 1 {
		t.Errorf("%d processes were started, want 1", n)
	}
}

// A client is answered at the revision that it has asked for.
func TestSharedProcessAtEachRevision(t *testing.T) {
	x := newProgramOf(t, Kind{Share: true}, usual)
	for asked, want := range map[string]string{
		"2025-11-25": "2025-11-25", "2025-06-18": "2025-06-18", "2025-03-26": "2025-03-26", "1999-01-01": "2025-11-25",
	} {
		body := read(t, (&visitor{tested: x}).send(http.MethodPost, strings.Replace(hello, "2025-11-25", asked, 1)))
		if !strings.Contains(body, `"protocolVersion":"`+want+`"`) {
			t.Errorf("%s: got %s", asked, body)
		}
	}
}

// Changes of lists are told to all sessions, those of resources to the ones that have subscribed.
// Another process after this one knows of the subscriptions.
func TestNoticesOfSharedProcess(t *testing.T) {
	x := newProgramOf(t, Kind{Share: true}, usual)
	a, b := x.visit(), x.visit()
	listening := map[*visitor]*sse.Reader{}
	for _, v := range []*visitor{a, b} {
		res := v.send(http.MethodGet, "")
		defer res.Body.Close()
		listening[v] = sse.NewReader(res.Body, 1<<20)
	}
	subscribe := func(v *visitor, method, uri string) {
		t.Helper()
		got := read(t, v.send(http.MethodPost, `{"jsonrpc":"2.0","id":"s","method":"resources/`+method+`","params":{"uri":"`+uri+`"}}`))
		if want := `{"jsonrpc":"2.0","id":"s","result":{}}`; got != want {
			t.Errorf("%s: got %s, want %s", method, got, want)
		}
	}
	hears := func(v *visitor, what string) {
		t.Helper()
		if event, err := listening[v].Next(); err != nil || !strings.Contains(string(event.Data), what) {
			t.Errorf("got %s, %v, want %s", event.Data, err, what)
		}
	}
	subscribe(a, "subscribe", "a:both")
	subscribe(b, "subscribe", "a:both")
	subscribe(b, "subscribe", "a:mine")
	a.call("update", `{"text":"a:mine/part"}`)
	a.call("update", `{"text":"a:both"}`)
	a.call("change", `{}`)
	hears(b, "a:mine")
	for v := range listening {
		hears(v, "a:both")
		hears(v, "list_changed")
	}
	subscribe(a, "unsubscribe", "a:both")
	if got := a.call("listens", `{}`); got != "2" {
		t.Errorf("the process has %s subscriptions, want those of the other session", got)
	}
	a.send(http.MethodPost, a.toolCall("die", `{}`)).Body.Close()
	await(t, "the next process has the subscriptions", func() bool { return a.call("listens", `{}`) == "2" })
	b.send(http.MethodPost, `{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`)
	subscribe(b, "unsubscribe", "a:both")
	if got := a.call("listens", `{}`); got != "1" {
		t.Errorf("the process has %s subscriptions, want 1", got)
	}
	b.send(http.MethodDelete, "")
	await(t, "the end of a session ends its subscriptions", func() bool { return a.call("listens", `{}`) == "0" })
}

// A session is told of the resources that it has subscribed to and of their parts, once the process has said yes.
// What it has refused, the next process is not asked for.
func TestSubscribersAreToldOfTheirs(t *testing.T) {
	x := newProgramOf(t, Kind{Share: true}, usual)
	v, other := x.visit(), x.visit()
	res := v.send(http.MethodGet, "")
	defer res.Body.Close()
	events := sse.NewReader(res.Body, 1<<20)
	for uri, want := range map[string]string{"note://1": "result", "note://refused": "error", "file:///d/": "result"} {
		got := read(t, v.send(http.MethodPost, `{"jsonrpc":"2.0","id":"s","method":"resources/subscribe","params":{"uri":"`+uri+`"}}`))
		if !strings.Contains(got, `"id":"s","`+want+`":`) {
			t.Errorf("%s: got %s", uri, got)
		}
	}
	for _, uri := range []string{"note://12", "note://refused", "note://1", "note://1x/2", "note://1/2", "file:///d", "file:///d/x"} {
		other.call("update", `{"text":"`+uri+`"}`)
	}
	for _, uri := range []string{"note://1", "note://1/2", "file:///d/x"} {
		if event, err := events.Next(); err != nil || !strings.Contains(string(event.Data), `"`+uri+`"`) {
			t.Errorf("got %s, %v, want %s", event.Data, err, uri)
		}
	}
	if kept := v.Program.session(v.session).remembered; kept == 0 || v.Program.session(v.session).subscription("note://refused") {
		t.Errorf("what was refused is kept, of %d bytes", kept)
	}
}

// A process of all sessions is that of sessions alone, unless the configuration says otherwise.
func TestSharedProcessIsAlone(t *testing.T) {
	x := newProgramOf(t, Kind{Share: true}, usual, "dual")
	v := x.visit()
	if res := (&passer{tested: x}).must("tools/list", ""); res.StatusCode != 400 {
		t.Errorf("without a session: %d %s", res.StatusCode, read(t, res))
	}
	v.call("echo", `{}`)
	if n := len(x.started()); n != 1 {
		t.Errorf("%d processes were started, want 1", n)
	}
}
