package program

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-mcp/mcp-cache/integration/programtest"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/process"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/sse"
)

// tested is a program that a test uses.
type tested struct {
	*Program
	t    *testing.T
	host *Host
	logs *observer.ObservedLogs
	pids string // a directory with a file for each process that was started
}

// usual are limits of which none is reached by itself.
var usual = Limits{StartTimeout: time.Minute, Idle: time.Hour, StopGrace: time.Minute, Max: 100, Memory: 64 << 20, Lazy: true}

var environment = []string{"PATH=" + os.Getenv("PATH"), "SECRET=1"}

func newProgram(t *testing.T, limits Limits, traits ...string) *tested {
	t.Helper()
	return newProgramOf(t, Kind{}, limits, traits...)
}

// newProgramOf returns one that is used in that way.
func newProgramOf(t *testing.T, kind Kind, limits Limits, traits ...string) *tested {
	t.Helper()
	return newStoredProgram(t, nil, kind, limits, traits...)
}

// newStoredProgram returns one whose records are in that store.
func newStoredProgram(t *testing.T, store Store, kind Kind, limits Limits, traits ...string) *tested {
	t.Helper()
	core, logs := observer.New(zap.DebugLevel)
	x := &tested{t: t, host: NewHost(), logs: logs, pids: t.TempDir()}
	path, args := programtest.Command(append(traits, "pids", x.pids)...)
	x.Program = x.host.New(func() (process.Command, error) {
		return process.Command{Path: path, Args: args, Env: environment}, nil
	}, kind, limits, store, zap.New(core))
	x.SetName("tested")
	t.Cleanup(func() {
		x.host.EndAll(time.Second)
		x.Close()
		x.host.Close()
		if held := x.memory.Load().Used(); held != 0 {
			t.Errorf("%d bytes of messages are held for nobody", held)
		}
		if left := programtest.Running(t, x.pids); len(left) > 0 {
			t.Errorf("processes %d are left", left)
		}
	})
	return x
}

// started returns the numbers of the processes that were started.
func (x *tested) started() []int { return programtest.Started(x.t, x.pids) }

// running counts the processes that run.
func (x *tested) running() int { return len(programtest.Running(x.t, x.pids)) }

func await(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !condition(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within a minute", what)
		}
	}
}

// visitor is a client of the program.
type visitor struct {
	*tested
	session string
	ids     atomic.Int64
}

const hello = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"sampling":{}},"clientInfo":{"name":"c","version":"1"}}}`

// visit opens a session.
func (x *tested) visit() *visitor {
	x.t.Helper()
	v := &visitor{tested: x}
	res := v.send(http.MethodPost, hello)
	body := read(x.t, res)
	if res.StatusCode != http.StatusOK || !strings.Contains(body, `"id":0,"result":{"protocolVersion":"2025-11-25"`) {
		x.t.Fatalf("initialize: %d %s", res.StatusCode, body)
	}
	if v.session = res.Header.Get(sessionHeader); v.session == "" {
		x.t.Fatal("initialize: no session id")
	}
	if res := v.send(http.MethodPost, `{"jsonrpc":"2.0","method":"notifications/initialized"}`); res.StatusCode != http.StatusAccepted {
		x.t.Fatalf("initialized: %d", res.StatusCode)
	}
	return v
}

func (v *visitor) send(method, body string) *http.Response {
	v.t.Helper()
	res, err := v.sendAs(v.t.Context(), method, body, "application/json, text/event-stream")
	if err != nil {
		v.t.Fatal(err)
	}
	return res
}

func (v *visitor) sendAs(ctx context.Context, method, body, accept string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://program/mcp", strings.NewReader(body))
	if err != nil {
		v.t.Fatal(err)
	}
	r.Header.Set("Accept", accept)
	r.Header.Set("Content-Type", "application/json")
	if v.session != "" {
		r.Header.Set(sessionHeader, v.session)
		r.Header.Set(revisionHeader, "2025-11-25")
	}
	return v.RoundTrip(r)
}

// toolCall returns the request that calls a tool. Its id is a text, as some clients' are.
func (v *visitor) toolCall(tool, arguments string) string {
	id := v.ids.Add(1)
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":"c%d","method":"tools/call","params":{"name":%q,"arguments":%s,"_meta":{"progressToken":"t%d"}}}`,
		id, tool, arguments, id)
}

// call calls a tool, and returns its text.
func (v *visitor) call(tool, arguments string) string {
	v.t.Helper()
	messages := readMessages(v.t, v.send(http.MethodPost, v.toolCall(tool, arguments)))
	return text(v.t, messages[len(messages)-1])
}

// text returns that of a tool's result.
func text(t *testing.T, message string) string {
	t.Helper()
	var m struct {
		Result struct {
			Content []struct{ Text string }
		}
	}
	if err := json.Unmarshal([]byte(message), &m); err != nil || len(m.Result.Content) == 0 {
		t.Fatalf("no result: %.300s (%v)", message, err)
	}
	return m.Result.Content[0].Text
}

func read(t *testing.T, res *http.Response) string {
	t.Helper()
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// readMessages reads an answer to its end.
func readMessages(t *testing.T, res *http.Response) (messages []string) {
	t.Helper()
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Fatalf("status %d: %s", res.StatusCode, read(t, res))
	}
	if res.Header.Get("Content-Type") == "application/json" {
		return []string{read(t, res)}
	}
	for events := sse.NewReader(res.Body, process.MaxLine); ; {
		event, err := events.Next()
		if errors.Is(err, io.EOF) {
			return messages
		}
		if err != nil {
			t.Fatal(err)
		}
		messages = append(messages, string(event.Data))
	}
}
