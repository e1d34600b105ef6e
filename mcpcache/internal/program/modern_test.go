package program

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/sse"
)

// passer is a client without a session.
type passer struct {
	*tested
	ids int
}

const modernMeta = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}`

// ask sends a request, with the headers that belong to it and those given here; "" takes one away.
func (p *passer) ask(ctx context.Context, method, params string, headers ...string) (*http.Response, error) {
	p.ids++
	if params != "" {
		params += ","
	}
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":"m%d","method":%q,"params":{%s"_meta":{%s,"progressToken":"t%[1]d"}}}`,
		p.ids, method, params, modernMeta)
	return p.RoundTrip(p.request(ctx, method, body, headers...))
}

func (p *passer) request(ctx context.Context, method, body string, headers ...string) *http.Request {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://program/mcp", strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	for i, all := 0, append([]string{
		"Accept", "application/json, text/event-stream", "Content-Type", "application/json",
		revisionHeader, "2026-07-28", "Mcp-Method", method,
	}, headers...); i < len(all); i += 2 {
		if r.Header.Del(all[i]); all[i+1] != "" {
			r.Header.Set(all[i], all[i+1])
		}
	}
	return r
}

func (p *passer) must(method, params string, headers ...string) *http.Response {
	p.t.Helper()
	res, err := p.ask(p.t.Context(), method, params, headers...)
	if err != nil {
		p.t.Fatal(err)
	}
	return res
}

// call calls a tool, and returns its text.
func (p *passer) call(tool string) string {
	p.t.Helper()
	messages := readMessages(p.t, p.must("tools/call", fmt.Sprintf(`"name":%q,"arguments":{"text":"x"}`, tool), "Mcp-Name", tool))
	return text(p.t, messages[len(messages)-1])
}

// All requests without a session use one process; sessions have others.
func TestRequestsWithoutASession(t *testing.T) {
	x := newProgram(t, usual, "dual")
	a, b := &passer{tested: x}, &passer{tested: x}
	if got := read(t, a.must("server/discover", "")); !strings.Contains(got, `"id":"m1","result":{"resultType":"complete","supportedVersions"`) {
		t.Errorf("got %s", got)
	}
	pid := a.call("pid")
	if b.call("pid") != pid {
		t.Error("two clients have two processes")
	}
	if x.visit().call("pid", `{}`) == pid {
		t.Error("a session uses the process of those without one")
	}
	got := readMessages(t, a.must("tools/call", `"name":"progress","arguments":{}`, "Mcp-Name", "progress"))
	if len(got) != 4 || !strings.Contains(got[0], `"progressToken":"t3"`) || !strings.Contains(got[3], `"id":"m3"`) {
		t.Errorf("got %q", got)
	}
	if n := len(x.started()); n != 2 {
		t.Errorf("%d processes were started, want 2", n)
	}
}

// What is told of a subscription goes to it alone, under the id of its client.
func TestSubscriptions(t *testing.T) {
	x := newProgram(t, usual, "modern")
	first, second := &passer{tested: x}, &passer{tested: x, ids: 10}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	res, err := first.ask(ctx, "subscriptions/listen", `"notifications":{"toolsListChanged":true}`)
	if err != nil {
		t.Fatal(err)
	}
	other := second.must("subscriptions/listen", `"notifications":{"toolsListChanged":true}`)
	defer other.Body.Close()
	heard := map[string]*sse.Reader{"m1": sse.NewReader(res.Body, 1<<20), "m11": sse.NewReader(other.Body, 1<<20)}
	for _, method := range []string{"acknowledged", "list_changed"} {
		for id, events := range heard {
			event, err := events.Next()
			if err != nil || !strings.Contains(string(event.Data), method) || !strings.Contains(string(event.Data), `subscriptionId":"`+id+`"`) {
				t.Errorf("%s: got %s, %v", id, event.Data, err)
			}
		}
		first.call("change")
	}
	cancel()
	res.Body.Close()
	await(t, "the process hears that a client has left", func() bool { return second.call("listens") == "1" })
}

// A client that leaves has cancelled its request. Whoever is left hears nothing of it.
func TestCallsThatAreLeft(t *testing.T) {
	x := newProgram(t, usual, "modern")
	p := &passer{tested: x}
	ctx, cancel := context.WithCancel(t.Context())
	res, err := p.ask(ctx, "tools/call", `"name":"cancelled","arguments":{}`, "Mcp-Name", "cancelled")
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	res.Body.Close()
	await(t, "the process hears that a client has left", func() bool { return p.call("heard") == "1" })
	if got := p.call("echo"); got != "x" {
		t.Errorf("the next call is answered %q", got)
	}
}

// A log message does not say to which request it belongs: it is told where there is no doubt.
func TestLogMessagesWithoutASession(t *testing.T) {
	x := newProgram(t, usual, "modern")
	p := &passer{tested: x}
	log := func(level string) (messages int) {
		body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"log","arguments":{},"_meta":{` + modernMeta + level + `}}}`
		res, err := p.RoundTrip(p.request(t.Context(), "tools/call", body, "Mcp-Name", "log"))
		if err != nil {
			t.Fatal(err)
		}
		return len(readMessages(t, res))
	}
	if n := log(`,"io.modelcontextprotocol/logLevel":"info"`); n != 2 {
		t.Errorf("who asks for log messages has %d messages, want 2", n)
	}
	if n := log(""); n != 1 {
		t.Errorf("who does not has %d messages, want 1", n)
	}
	if n := log(`,"io.modelcontextprotocol/logLevel":"info"`); n != 1 {
		t.Errorf("who asks for log messages after another has %d messages, want 1: they may be the other's", n)
	}
	p = &passer{tested: newProgram(t, usual, "modern")}
	other := p.must("tools/call", `"name":"cancelled","arguments":{}`, "Mcp-Name", "cancelled")
	defer other.Body.Close()
	if n := log(`,"io.modelcontextprotocol/logLevel":"info"`); n != 1 {
		t.Errorf("who asks for log messages beside another call has %d messages, want 1", n)
	}
}

// Numbers may be written as fractions, in ids, progress tokens and subscriptions; members may be null, and the
// version twice.
func TestLooseProgram(t *testing.T) {
	session := newProgram(t, usual, "loose").visit()
	stateless := &passer{tested: newProgram(t, usual, "loose", "modern")}
	for name, call := range map[string]func() *http.Response{
		"session": func() *http.Response { return session.send(http.MethodPost, session.toolCall("progress", `{}`)) },
		"no session": func() *http.Response {
			return stateless.must("tools/call", `"name":"progress","arguments":{}`, "Mcp-Name", "progress")
		},
	} {
		got := readMessages(t, call())
		if len(got) != 4 || !strings.Contains(got[0], `"progressToken":"`) || !strings.Contains(got[3], `"id":"`) {
			t.Errorf("%s: got %q", name, got)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	res, err := stateless.ask(ctx, "subscriptions/listen", `"notifications":{"toolsListChanged":true}`)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	stateless.call("change")
	events := sse.NewReader(res.Body, 1<<20)
	for _, method := range []string{"acknowledged", "list_changed"} {
		if event, err := events.Next(); err != nil || !strings.Contains(string(event.Data), method) {
			t.Errorf("got %s, %v, want %s", event.Data, err, method)
		}
	}
}

// What a server of Streamable HTTP refuses does not reach the program.
func TestRefusedWithoutASession(t *testing.T) {
	x := newProgram(t, usual, "modern")
	p := &passer{tested: x}
	call := `"name":"echo","arguments":{"text":"x"}`
	for name, tt := range map[string]struct {
		method, params string
		headers        []string
		status         int
		says           string
	}{
		"right":                  {"tools/call", call, []string{"Mcp-Name", "echo"}, 200, `"text":"x"`},
		"name in base64":         {"tools/call", call, []string{"Mcp-Name", "=?base64?ZWNobw==?="}, 200, `"text":"x"`},
		"session is ignored":     {"tools/call", call, []string{"Mcp-Name", "echo", sessionHeader, "x"}, 200, `"text":"x"`},
		"another name":           {"tools/call", call, []string{"Mcp-Name", "other"}, 400, "-32020"},
		"no name":                {"tools/call", call, nil, 400, "-32020"},
		"of a session":           {"logging/setLevel", `"level":"info"`, nil, 404, "-32601"},
		"no URI":                 {"resources/read", `"uri":"a:b"`, nil, 400, "params.uri"},
		"another method":         {"tools/list", "", []string{"Mcp-Method", "tools/call"}, 400, "-32020"},
		"no method":              {"tools/list", "", []string{"Mcp-Method", ""}, 400, "-32020"},
		"another version":        {"tools/list", "", []string{revisionHeader, "2025-11-25"}, 400, "-32020"},
		"no version":             {"tools/list", "", []string{revisionHeader, ""}, 400, "-32020"},
		"unknown method":         {"x/y", "", nil, 404, "-32601"},
		"listening, no stream":   {"subscriptions/listen", "", []string{"Accept", "application/json"}, 406, "text/event-stream"},
		"answers of the program": {"tools/list", "", nil, 200, "12345678901234567890"},
	} {
		res := p.must(tt.method, tt.params, tt.headers...)
		if body := read(t, res); res.StatusCode != tt.status || !strings.Contains(body, tt.says) {
			t.Errorf("%s: %d %s, want %d and %s", name, res.StatusCode, body, tt.status, tt.says)
		}
	}
	for name, tt := range map[string]struct{ body, version, says string }{
		"no meta":         {`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, "2026-07-28", "-32602"},
		"no capabilities": {`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`, "2026-07-28", "-32602"},
		"later revision":  {strings.ReplaceAll(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{`+modernMeta+`}}}`, "2026-07-28", "2031-01-01"), "2031-01-01", `"supported":["2026-07-28"]`},
		"response":        {`{"jsonrpc":"2.0","id":1,"result":{}}`, "2026-07-28", "no responses"},
	} {
		res, err := p.RoundTrip(p.request(t.Context(), "tools/list", tt.body, revisionHeader, tt.version))
		if err != nil {
			t.Fatal(err)
		}
		if body := read(t, res); res.StatusCode != 400 || !strings.Contains(body, tt.says) {
			t.Errorf("%s: %d %s, want 400 and %s", name, res.StatusCode, body, tt.says)
		}
	}
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		r := p.request(t.Context(), "", "")
		r.Method = method
		if res, err := p.RoundTrip(r); err != nil || res.StatusCode != 405 || res.Header.Get("Allow") != "POST" {
			t.Errorf("%s: %v, %v", method, res, err)
		}
	}
}

// Whether a program has sessions is found out with a process of its own, once.
func TestErasAreFoundOut(t *testing.T) {
	for name, tt := range map[string]struct {
		traits  []string
		silence time.Duration
		status  int
		started int // by three requests, and a session after the first one that is refused
	}{
		"it answers":                   {[]string{"modern"}, time.Minute, 200, 1},
		"it ends":                      {nil, time.Minute, 400, 2},
		"it says nothing":              {[]string{"silent"}, 10 * time.Millisecond, 400, 2},
		"it is asked while it starts":  {[]string{"hesitates", t.TempDir() + "/hesitated"}, 2 * time.Second, 200, 2},
		"it cannot be started, at all": {[]string{"exits"}, time.Minute, 400, 0},
	} {
		t.Run(name, func(t *testing.T) {
			x := newProgram(t, usual, tt.traits...)
			x.modern.era.silence = tt.silence
			p := &passer{tested: x}
			for n := range 3 {
				if n == 1 && tt.status == 400 && tt.started > 0 {
					x.visit().call("echo", `{}`) // which settles it
				}
				if res := p.must("tools/list", ""); res.StatusCode != tt.status {
					t.Errorf("%d %s, want %d", res.StatusCode, read(t, res), tt.status)
				}
			}
			if n := len(x.started()); n != tt.started {
				t.Errorf("%d processes were started, want %d", n, tt.started)
			}
		})
	}
}

// A modern program whose first process ends is found to be modern by a later one, whether or not a
// client has tried to open a session meanwhile.
func TestErasAreFoundOutAgain(t *testing.T) {
	for _, visits := range []bool{true, false} {
		x := newProgram(t, usual, "modern", "once", t.TempDir()+"/ended")
		p := &passer{tested: x}
		if res := p.must("tools/list", ""); res.StatusCode != 400 {
			t.Errorf("at first: %d %s, want 400", res.StatusCode, read(t, res))
		}
		if visits {
			res := (&visitor{tested: x}).send(http.MethodPost, hello)
			if body := read(t, res); !strings.Contains(body, `"supported":["2026-07-28"]`) {
				t.Errorf("initialize: %s", body)
			}
		}
		await(t, "it is found to be modern", func() bool { return p.must("tools/list", "").StatusCode == 200 })
	}
}

// What the configuration says is not found out.
func TestErasThatAreSaid(t *testing.T) {
	x := newProgramOf(t, Kind{Era: "modern"}, usual, "dual")
	res := (&visitor{tested: x}).send(http.MethodPost, hello)
	if body := read(t, res); res.StatusCode != 400 || !strings.Contains(body, `"supported":["2026-07-28"],"requested":"2025-11-25"`) {
		t.Errorf("initialize: %d %s", res.StatusCode, body)
	}
	if res := (&visitor{tested: x}).send(http.MethodGet, ""); res.StatusCode != 405 {
		t.Errorf("GET: %d", res.StatusCode)
	}
	if n := len(x.started()); n != 0 {
		t.Errorf("%d processes were started for a session", n)
	}
	(&passer{tested: x}).call("echo")

	x = newProgramOf(t, Kind{Era: "modern"}, usual)
	res = (&passer{tested: x}).must("server/discover", "")
	if body := read(t, res); res.StatusCode != 503 || !strings.Contains(body, "it ended while it started (exit status 6)") {
		t.Errorf("a program with sessions: %d %s", res.StatusCode, body)
	}
	limits := usual
	limits.StartTimeout = 100 * time.Millisecond
	x = newProgramOf(t, Kind{Era: "modern"}, limits, "silent")
	res = (&passer{tested: x}).must("server/discover", "")
	if body := read(t, res); res.StatusCode != 503 || !strings.Contains(body, "it did not answer in time") {
		t.Errorf("a program that says nothing: %d %s", res.StatusCode, body)
	}
}

// A process that ends takes its calls along, and ends subscriptions, so that they are made again.
func TestDeathWithoutASession(t *testing.T) {
	x := newProgram(t, usual, "modern")
	p := &passer{tested: x}
	events := p.must("subscriptions/listen", `"notifications":{"resourceSubscriptions":["test://1"]}`)
	got := read(t, p.must("tools/call", `"name":"die","arguments":{}`, "Mcp-Name", "die"))
	if !strings.Contains(got, `"id":"m2","error"`) || !strings.Contains(got, "exit status 7") {
		t.Errorf("got %s", got)
	}
	if messages := readMessages(t, events); len(messages) != 1 {
		t.Errorf("the subscription ends with %q", messages[1:])
	}
	if got := p.call("echo"); got != "x" {
		t.Errorf("the next call is answered %q", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.ask(ctx, "tools/list", ""); !errors.Is(err, context.Canceled) {
		t.Errorf("a client that has left gets %v", err)
	}
}
