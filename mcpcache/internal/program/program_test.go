package program

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/process"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/sse"
)

func TestRequestsAreAnswered(t *testing.T) {
	v := newProgram(t, usual).visit()
	got := readMessages(t, v.send(http.MethodPost, "{\n\"jsonrpc\": \"2.0\",\r\n \"id\": 7, \"method\": \"tools/list\"}"))
	want := `{"jsonrpc":"2.0","id":7,"result":{"tools":[{"name":"echo","inputSchema":{"type":"object"},"x":12345678901234567890}]}}`
	if len(got) != 1 || got[0] != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := v.call("echo", `{"text":"ä\nb"}`); got != "ä\nb" {
		t.Errorf("got %q", got)
	}
	if got := v.call("env", `{}`); got != strings.Join(environment, "\n") {
		t.Errorf("the program's environment is %q", got)
	}
}

// Each session has a process of its own; equal ids of clients are no matter.
func TestSessionsAreApart(t *testing.T) {
	x := newProgram(t, usual)
	a, b := x.visit(), x.visit()
	if a.session == b.session || a.call("pid", `{}`) == b.call("pid", `{}`) {
		t.Error("two sessions have one process")
	}
	if res := b.send(http.MethodDelete, ""); res.StatusCode != http.StatusNoContent {
		t.Errorf("DELETE: %d", res.StatusCode)
	}
	if res := b.send(http.MethodPost, b.toolCall("pid", `{}`)); res.StatusCode != http.StatusNotFound {
		t.Errorf("a session that was deleted: %d", res.StatusCode)
	}
	await(t, "the process of the session that was deleted ends", func() bool { return x.running() == 1 })
	a.call("pid", `{}`)
}

func TestProgressHasTheClientsToken(t *testing.T) {
	v := newProgram(t, usual).visit()
	got := readMessages(t, v.send(http.MethodPost, v.toolCall("progress", `{"text":"done"}`)))
	if len(got) != 4 {
		t.Fatalf("got %q", got)
	}
	for n, message := range got[:3] {
		want := fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t1","progress":%d}}`, n)
		if message != want {
			t.Errorf("got %s, want %s", message, want)
		}
	}
	if text(t, got[3]) != "done" || !strings.Contains(got[3], `"id":"c1"`) {
		t.Errorf("got %s", got[3])
	}
}

// What a client that takes no stream is not told, does not keep its answer back.
func TestAnswersWithoutAStream(t *testing.T) {
	v := newProgram(t, usual).visit()
	for _, tool := range []string{"progress", "log", "ask"} {
		res, err := v.sendAs(t.Context(), http.MethodPost, v.toolCall(tool, `{"text":"x"}`), "application/json")
		if err != nil {
			t.Fatal(err)
		}
		if got := res.Header.Get("Content-Type"); got != "application/json" {
			t.Errorf("%s: answered as %q", tool, got)
		}
		if body := read(t, res); tool == "ask" && !strings.Contains(body, "does not listen") {
			t.Errorf("%s: %s", tool, body)
		}
	}
}

// A process asks its client on the stream of the call in which it does.
func TestProcessAsksItsClient(t *testing.T) {
	v := newProgram(t, usual).visit()
	res := v.send(http.MethodPost, v.toolCall("ask", `{}`))
	defer res.Body.Close()
	events := sse.NewReader(res.Body, 1<<20)
	event, err := events.Next()
	if err != nil || !strings.Contains(string(event.Data), `"id":1,"method":"sampling/createMessage"`) {
		t.Fatalf("got %s, %v", event.Data, err)
	}
	for _, id := range []string{`"1"`, "99", "1", "1"} { // one that is none, one that nobody asked, the right one, and once more
		answer := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"of":%s}}`, id, id)
		if res := v.send(http.MethodPost, answer); res.StatusCode != http.StatusAccepted {
			t.Fatalf("answering %s: %d", id, res.StatusCode)
		}
	}
	if event, err = events.Next(); err != nil || text(t, string(event.Data)) != `{"of":1}` {
		t.Errorf("got %s, %v", event.Data, err)
	}
}

// What belongs to no call comes on the stream of GET, of which the last one counts.
func TestUnrelatedMessages(t *testing.T) {
	v := newProgram(t, usual).visit()
	first, second := v.send(http.MethodGet, ""), v.send(http.MethodGet, "")
	if got := readMessages(t, first); len(got) != 0 {
		t.Errorf("the first stream brings %q", got)
	}
	defer second.Body.Close()
	events := sse.NewReader(second.Body, 1<<20)
	if got := readMessages(t, v.send(http.MethodPost, v.toolCall("change", `{}`))); len(got) != 1 {
		t.Errorf("the call's answer has the notice: %q", got)
	}
	if event, err := events.Next(); err != nil || !strings.Contains(string(event.Data), "list_changed") {
		t.Errorf("got %s, %v", event.Data, err)
	}
	v.call("ask_later", `{}`)
	if event, err := events.Next(); err != nil || !strings.Contains(string(event.Data), "sampling/createMessage") {
		t.Errorf("got %s, %v", event.Data, err)
	}
	if got := readMessages(t, v.send(http.MethodPost, v.toolCall("log", `{"text":"in the call"}`))); len(got) != 2 {
		t.Errorf("the log message is not beside the call's answer: %q", got)
	}
}

// A call that is cancelled ends; its late answer reaches nobody.
func TestCancelledCalls(t *testing.T) {
	v := newProgram(t, usual).visit()
	res := v.send(http.MethodPost, v.toolCall("cancelled", `{}`))
	for _, id := range []string{`"none"`, `"c1"`} {
		v.send(http.MethodPost, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`+id+`}}`)
	}
	got := readMessages(t, res)
	if last := got[len(got)-1]; !strings.Contains(last, `"id":"c1","error":`) || !strings.Contains(last, "cancelled") {
		t.Errorf("got %q", got)
	}
	if got := v.call("echo", `{"text":"next"}`); got != "next" {
		t.Errorf("the next call is answered %q", got)
	}
}

// Answers that come twice, or with the id of an earlier call, reach nobody.
func TestAnswersThatNobodyAskedFor(t *testing.T) {
	x := newProgram(t, usual)
	v := x.visit()
	for n := range 20 {
		want := fmt.Sprint(n)
		if got := v.call("echo", `{"text":"`+want+`"}`); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if got := v.call("twice", `{}`); got != "first" {
			t.Errorf("got %q", got)
		}
	}
}

// What a program writes to standard output that is no message is skipped; the first lines are logged.
func TestJunk(t *testing.T) {
	x := newProgram(t, usual, "banner")
	v := x.visit()
	for range 3 {
		if got := readMessages(t, v.send(http.MethodPost, v.toolCall("junk", `{"text":"fine"}`))); len(got) != 1 || text(t, got[0]) != "fine" {
			t.Errorf("got %q", got)
		}
	}
	logged := x.logs.FilterMessageSnippet("no message").All() // of 9 lines
	if len(logged) != 4 || fmt.Sprintf("%s", logged[0].ContextMap()["line"]) != "Welcome to the server!" {
		t.Errorf("logged: %v", logged)
	}
}

// What only looks odd passes as it is written. An answer that cannot pass is an error at once.
func TestOddAnswers(t *testing.T) {
	v := newProgram(t, usual).visit()
	for said, want := range map[string]string{
		`{"jsonrpc":"2.0","id":ID,"result":{"cut":"\ud83d"}}`:                     `{"jsonrpc":"2.0","id":"CLIENT","result":{"cut":"\ud83d"}}`,
		`{"result":{"id":ID},"error":null,"id": ID ,"jsonrpc":"2.0"}`:             `"error":null,"id": "CLIENT" ,`,
		`{"jsonrpc":"2.0","id":ID,"result":null,"error":{"code":1,"message":""}}`: `"id":"CLIENT","result":null`,
		`{"jsonrpc":"2.0","id":ID,"result":{"text":"<ff>"}}`:                      `"error":{"code":-32603,"message":"program tested answered with bytes that are not UTF-8"}`,
	} {
		arguments, _ := json.Marshal(map[string]string{"text": said})
		got := read(t, v.send(http.MethodPost, v.toolCall("raw", string(arguments))))
		if want = strings.ReplaceAll(want, "CLIENT", fmt.Sprintf("c%d", v.ids.Load())); !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want %s", said, got, want)
		}
	}
}

// What is kept of a session for its next process is bounded.
func TestRememberedMessages(t *testing.T) {
	v := newProgram(t, usual).visit()
	subscribe := func(uri string) string {
		return read(t, v.send(http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"`+uri+`"}}`))
	}
	large := strings.Repeat("x", maxRemembered/2)
	for range 3 { // the same one takes no more
		if got := subscribe(large); !strings.Contains(got, `"result":{}`) {
			t.Errorf("got %s", got)
		}
	}
	if got := subscribe(large + "y"); !strings.Contains(got, "larger than 128 KiB") {
		t.Errorf("too many subscriptions: got %s", got)
	}
	v.send(http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"resources/unsubscribe","params":{"uri":"`+large+`"}}`)
	if got := subscribe(large + "y"); !strings.Contains(got, `"result":{}`) {
		t.Errorf("after one was taken back: got %s", got)
	}
	notice := `{"jsonrpc":"2.0","method":"notifications/initialized","params":{"x":"` + large + `"}}`
	if res := v.send(http.MethodPost, notice); res.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("a large notification: %d", res.StatusCode)
	}
}

func TestLongLines(t *testing.T) {
	x := newProgram(t, usual)
	v := x.visit()
	if got := v.call("long", `{"size":20000000}`); len(got) != 20_000_000 {
		t.Errorf("got %d bytes", len(got))
	}
	pid := v.call("pid", `{}`)
	got := readMessages(t, v.send(http.MethodPost, v.toolCall("long", fmt.Sprintf(`{"size":%d}`, process.MaxLine))))
	if len(got) != 1 || !strings.Contains(got[0], "a line has more than 33554432 bytes") {
		t.Errorf("got %.200q", got)
	}
	if v.call("pid", `{}`) == pid {
		t.Error("the process that has written too long a line runs on")
	}
}

// A program that floods its standard error does not hang, and the log has a few lines of it.
func TestStandardError(t *testing.T) {
	x := newProgram(t, usual)
	if got := x.visit().call("complain", `{"text":"done"}`); got != "done" {
		t.Errorf("got %q", got)
	}
	if logged := x.logs.FilterMessage("program wrote to standard error").Len(); logged != 1 {
		t.Errorf("%d lines are logged", logged)
	}
}

// A process that dies takes its calls along, with an error that says so, and the session goes on.
func TestDeathInACall(t *testing.T) {
	x := newProgram(t, usual)
	v, other := x.visit(), x.visit()
	v.send(http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"error"}}`)
	pid := v.call("pid", `{}`)
	got := readMessages(t, v.send(http.MethodPost, v.toolCall("die", `{}`)))
	want := `{"jsonrpc":"2.0","id":"c2","error":{"code":-32603,"message":"program tested ended before it answered: exit status 7"}}`
	if len(got) != 1 || got[0] != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if v.call("pid", `{}`) == pid {
		t.Error("the process runs on")
	}
	await(t, "the next process knows the level", func() bool { return v.call("level", `{}`) == "error" })
	other.call("pid", `{}`)
}

func TestRefusedRequests(t *testing.T) {
	x := newProgramOf(t, Kind{Era: "legacy"}, usual)
	v := x.visit()
	list := `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	for name, tt := range map[string]struct {
		method, session, version, kind, body string
		status                               int
		says                                 string
	}{
		"no session":              {"POST", "", "", "application/json", list, 400, "Mcp-Session-Id is missing"},
		"unknown session":         {"POST", "x", "", "application/json", list, 404, "session has ended"},
		"stream, no session":      {"GET", "", "", "", "", 400, "Mcp-Session-Id is missing"},
		"stream, unknown session": {"GET", "x", "", "", "", 404, "session has ended"},
		"end of unknown session":  {"DELETE", "x", "", "", "", 404, "session has ended"},
		"another method":          {"PUT", v.session, "", "", "", 405, ""},
		"revision of before":      {"POST", v.session, "2024-11-05", "application/json", list, 200, "echo"},
		"unknown revision":        {"POST", v.session, "1999-01-01", "application/json", list, 400, "unknown MCP-Protocol-Version"},
		"modern header":           {"POST", "", "2026-07-28", "application/json", `{"jsonrpc":"2.0","id":1,"method":"server/discover"}`, 400, "initialize"},
		"modern message": {"POST", "", "", "application/json",
			`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`, 400, "initialize"},
		"empty initialize": {"POST", "", "", "application/json", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`, 400, "protocolVersion"},
		"no JSON":          {"POST", v.session, "", "text/plain", list, 415, "application/json"},
		"line end in text": {"POST", v.session, "", "application/json", strings.Replace(list, "tools", "to\nols", 1), 400, "malformed"},
		"half a message":   {"POST", v.session, "", "application/json", list[:20], 400, ""},
		"batch":            {"POST", v.session, "", "application/json", "[" + list + "]", 400, "batch"},
		"not UTF-8":        {"POST", v.session, "", "application/json", "\"\xff\"", 400, "UTF-8"},
		"too large":        {"POST", v.session, "", "application/json", strings.Repeat(" ", process.MaxLine+1), 413, "32 MiB"},
		"large initialize": {"POST", "", "", "application/json",
			strings.Replace(hello, `"c"`, `"`+strings.Repeat("c", maxInitialize)+`"`, 1), 413, "64 KiB"},
	} {
		r, err := http.NewRequestWithContext(t.Context(), tt.method, "http://program/mcp", strings.NewReader(tt.body))
		if err != nil {
			t.Fatal(err)
		}
		for header, value := range map[string]string{
			sessionHeader: tt.session, revisionHeader: tt.version, "Content-Type": tt.kind, "Accept": "application/json, text/event-stream",
		} {
			if value != "" {
				r.Header.Set(header, value)
			}
		}
		res, err := x.RoundTrip(r)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if body := read(t, res); res.StatusCode != tt.status || !strings.Contains(body, tt.says) {
			t.Errorf("%s: %d %s, want %d", name, res.StatusCode, body, tt.status)
		}
	}
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://program/mcp", nil)
	r.Header.Set("Content-Type", "application/json")
	if res, err := x.RoundTrip(r); err != nil || res.StatusCode != 400 {
		t.Errorf("no body: %v, %v", res, err)
	}
	if n := len(x.started()); n != 1 {
		t.Errorf("%d processes were started, want that of the session", n)
	}
}

// A process may ask many things before it reads an answer. One that reads none is ended, and the log says so
// once.
func TestProcessAsksALot(t *testing.T) {
	for pings, answered := range map[int]bool{25: true, 20_000: true, 60_000: false} {
		t.Run(strconv.Itoa(pings), func(t *testing.T) {
			v := newProgram(t, usual).visit()
			body := read(t, v.send(http.MethodPost, v.toolCall("pings", fmt.Sprintf(`{"n":%d}`, pings))))
			logged := v.logs.FilterMessage("program is stopped").Len()
			switch {
			case answered && (text(t, body) != strconv.Itoa(pings) || logged != 0):
				t.Errorf("got %s", body)
			case !answered && (!strings.Contains(body, errUnread.Error()) || logged != 1):
				t.Errorf("got %s, and the log says %d times that it is stopped", body, logged)
			}
		})
	}
}

// What is there for a client that does not read is bounded.
func TestSlowReaders(t *testing.T) {
	s := newStream(nil)
	message := make([]byte, maxQueued/2)
	for n := range 2 {
		if !s.put(message) {
			t.Errorf("message %d has no room", n)
		}
	}
	if s.put([]byte("x")) {
		t.Error("there is room for a byte more")
	}
	if !s.finish(message, nil) || s.put(nil) || s.finish(nil, nil) {
		t.Error("the last message is not the last")
	}
	for n := range 3 {
		if got, last := s.take(); len(got.message) != len(message) || last != (n == 2) {
			t.Errorf("message %d: %d bytes, last: %v", n, len(got.message), last)
		}
	}
}
