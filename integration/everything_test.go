package integration

import (
	"bytes"
	"encoding/json"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// came is what came to a session of another's client: a notice, a list of tools, or
// the result of a call.
type came struct {
	notice bool

	Tool, Text string

	Count  int
	Digest string
	Status string // Cache-Status
}

func (c *came) UnmarshalJSON(data []byte) error {
	if c.notice = string(data) == `"notice"`; c.notice {
		return nil
	}
	type list came
	return json.Unmarshal(data, (*list)(c))
}

func isNotice(c came) bool { return c.notice }

// isHit reports whether a list came from the cache, fresh.
func (c *came) isHit() bool {
	return strings.Contains(c.Status, "; hit") && !strings.Contains(c.Status, "stale")
}

// sdkSessions are programs that open sessions with clients that declare sampling,
// elicitation and roots, and print what came.
func (o others) sdkSessions() map[string][]string {
	typescript := []string{o.node(), "clients/sessions.cjs", o.dir}
	return map[string][]string{
		"typescript 1":    append(slices.Clip(typescript), "ts1"),
		"typescript 2":    append(slices.Clip(typescript), "ts2"),
		"python 1":        o.python("mcp1", "sessions.py", "mcp1"),
		"python 2":        o.python("mcp2", "sessions.py", "mcp2"),
		"python 2 client": o.python("mcp2", "sessions.py", "mcp2-client"),
		"fastmcp":         o.python("fastmcp", "sessions.py", "fastmcp"),
	}
}

// open runs such a program, and returns what came to each session, which also calls
// those tools.
func open(t *testing.T, program []string, url string, sessions, lists int, tools ...string) (all [][]came) {
	t.Helper()
	args := slices.Concat(program[1:], []string{url, strconv.Itoa(sessions), strconv.Itoa(lists)}, tools)
	run := exec.CommandContext(t.Context(), program[0], args...)
	var said bytes.Buffer
	run.Stderr = &said
	printed, err := run.Output()
	if err != nil {
		t.Errorf("running %s: %v: %.2000s", program[len(program)-1], err, said.String())
	}
	for line := range strings.Lines(string(printed)) {
		var one []came
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			t.Errorf("reading %.200s: %v", line, err)
		}
		all = append(all, one)
	}
	return all
}

const (
	everySessions = 20
	everyLists    = 6
)

// TestEverything has every client open sessions with the reference server, one
// after the other and then all at once. The server registers tools for what the
// client can do once the session is there, and announces them, to clients whose
// stream is open by then. Everybody is given the tools that the server itself
// gives them; from the second list after a session's own notice on, from the cache.
func TestEverything(t *testing.T) {
	o := installed(t)
	server := startOther(t, fixture.FreeAddr(t), o.everything()...)
	// What the upstream is asked is counted.
	direct := &url.URL{Scheme: "http", Host: server.addr}
	host := fixture.NewHost(t, &httputil.ReverseProxy{
		FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(direct) },
	})
	p := startProxy(t, mcpCache(host.URL))
	want := make(map[string]came)
	programs := o.sdkSessions()
	for name, program := range programs {
		t.Run(name, func(t *testing.T) {
			for _, session := range open(t, program, direct.JoinPath("mcp").String(), 1, 1) {
				want[name] = session[len(session)-1]
			}
			if want[name].Count < 16 {
				t.Fatalf("direct, there are %d tools", want[name].Count)
			}
			asked := host.Count(scripted.ToolsList)
			sessions := open(t, program, p.URL, everySessions, everyLists)
			wantSame(t, sessions, want[name])
			wantHits(t, sessions)
			tally(t, sessions, host.Count(scripted.ToolsList)-asked)
		})
	}
	if t.Failed() {
		return
	}
	t.Run("at once", func(t *testing.T) {
		asked := host.Count(scripted.ToolsList)
		var mu sync.Mutex
		var all [][]came
		var wg sync.WaitGroup
		for name, program := range programs {
			wg.Go(func() {
				sessions := open(t, program, p.URL, everySessions, everyLists)
				wantSame(t, sessions, want[name])
				mu.Lock()
				defer mu.Unlock()
				all = append(all, sessions...)
			})
		}
		wg.Wait()
		tally(t, all, host.Count(scripted.ToolsList)-asked)
	})
}

// wantSame fails if a list is not the one that the server itself gives.
func wantSame(t *testing.T, sessions [][]came, want came) {
	t.Helper()
	if len(sessions) != everySessions {
		t.Errorf("%d sessions of %d came to their end", len(sessions), everySessions)
	}
	for i, session := range sessions {
		for _, c := range session {
			if !c.notice && c.Digest != want.Digest {
				t.Errorf("session %d is given %d tools (%s), want %d", i, c.Count, c.Status, want.Count)
			}
		}
	}
}

// wantHits fails if a list is forwarded though it is the second or a later one of
// the session, or since the session was told of a change. The client may have read
// of that only after the lists that the cache forwards because of it. And until the
// very first session has a hit, the feed may still be finding out what such clients
// are shown.
func wantHits(t *testing.T, sessions [][]came) {
	t.Helper()
	for i, session := range sessions {
		before, learning := 0, i == 0
		for n, c := range session {
			if c.notice {
				before = 0
				continue
			}
			later := session[n+1:]
			changed := strings.HasSuffix(c.Status, "; detail=changed")
			told := len(later) > 0 && later[0].notice || changed && slices.ContainsFunc(later, isNotice)
			learning = learning && !c.isHit()
			if before > 0 && !c.isHit() && !told && !learning {
				t.Errorf("session %d: list %d since its beginning or its last notice is %s", i, before+1, c.Status)
			}
			before++
		}
	}
}

// tally logs how many lists were hits, by their place in the session.
func tally(t *testing.T, sessions [][]came, asked int) {
	t.Helper()
	var hits [everyLists]int
	told, lists := 0, 0
	for _, session := range sessions {
		i := 0
		if slices.ContainsFunc(session, func(c came) bool { return c.notice }) {
			told++
		}
		for _, c := range session {
			if c.notice {
				continue
			}
			if c.isHit() {
				hits[i]++
			}
			i++
			lists++
		}
	}
	t.Logf("%s: %d sessions, %d told of a change; hits by place in the session: %v; %d lists made %d requests to the upstream",
		t.Name(), len(sessions), told, hits, lists, asked)
}
