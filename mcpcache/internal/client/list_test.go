package client

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"weak"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// TestLongLists fetches long lists in every form, in both eras: byte for byte.
func TestLongLists(t *testing.T) {
	padding := strings.Repeat("x", longMessage)
	items := `{"name":"a","n":1.0,"x":"` + padding + `"},{"name":"b"}`
	events := func(events ...string) script {
		return func(w http.ResponseWriter, _ *http.Request, c call) error {
			text := ""
			for _, event := range events {
				text += "data: " + strings.ReplaceAll(event, "ID", string(c.ID)) + "\n\n"
			}
			return reply(w, 200, eventType, text)
		}
	}
	whole := `{"jsonrpc":"2.0","id":ID,"result":{"tools":[` + items + `]}}`
	other := `{"jsonrpc":"2.0","id":"other","result":{"tools":[{"name":"other","x":"` + padding + `"}]}}`
	for name, tt := range map[string]struct {
		answer script
		want   []string // nil: it is refused
	}{
		"JSON":         {gives(`{"tools":[` + items + `]}`), []string{"a", "b"}},
		"stream":       {events(whole), []string{"a", "b"}},
		"notice first": {events(`{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"`+padding+`"}}`, whole), []string{"a", "b"}},
		"pages": {func(w http.ResponseWriter, _ *http.Request, c call) error {
			if c.Params.Cursor == nil {
				return result(w, c, `{"tools":[{"name":"first"}],"nextCursor":"2"}`)
			}
			return result(w, c, `{"tools":[`+items+`]}`)
		}, []string{"first", "a", "b"}},
		"another's, then its own": {events(other, whole), []string{"a", "b"}},
		"another's error first":   {events(`{"jsonrpc":"2.0","id":"other","error":{"code":-1,"message":"no"}}`, whole), []string{"a", "b"}},
		"its own, then another's": {events(`{"jsonrpc":"2.0","id":ID,"result":{"tools":[{"name":"a"}]}}`, other), []string{"a"}},
		"error":                   {events(`{"jsonrpc":"2.0","id":ID,"error":{"code":-1,"message":"` + padding + `"}}`), nil},
	} {
		for era, r := range both {
			t.Run(name+" "+era, func(t *testing.T) {
				s := newServer(r)
				s.On(list, tt.answer)
				run(t, r, s, func(w *world) {
					got, err := w.open().List(w.Context(), ListRequest{Kind: revision.Tools, Patient: true})
					if (err == nil) != (tt.want != nil) {
						t.Fatalf("got error %v", err)
					}
					if err != nil {
						return
					}
					if !slices.Equal(got.Body.Names(), tt.want) {
						t.Errorf("got %v, want %v", got.Body.Names(), tt.want)
					}
					if len(tt.want) > 1 && !strings.Contains(string(got.Body.Bytes), items) {
						t.Errorf("got %.300s", got.Body.Bytes)
					}
				})
			})
		}
	}
}

// An answer with something after its message, or of another JSON-RPC, is none:
// neither a list nor what opens a session.
func TestWhatIsNoMessage(t *testing.T) {
	const answers = `{"jsonrpc":%q,"id":%s,"result":{"resultType":"complete","tools":[{"name":"evil"}],"capabilities":{"tools":{}},` +
		`"protocolVersion":"2025-11-25","supportedVersions":["2026-07-28"],"serverInfo":{"name":"x","version":"1"}}}%s`
	for name, tt := range map[string]struct{ version, after string }{
		"a value follows":    {"2.0", `{"x":1}`},
		"a bracket follows":  {"2.0", `}`},
		"a NUL follows":      {"2.0", "\x00"},
		"JSON-RPC 1.0":       {"1.0", ""},
		"JSON-RPC of no one": {"", ""},
		"white space":        {"2.0", " \r\n\t"},
	} {
		for _, media := range []string{jsonType, eventType} {
			for era, r := range both {
				t.Run(name+" "+media+" "+era, func(t *testing.T) {
					if media == eventType && tt.after != "" && !strings.Contains(tt.after, "x") {
						t.Skip("an event is a line")
					}
					bad := func(w http.ResponseWriter, _ *http.Request, c call) error {
						body := fmt.Sprintf(answers, tt.version, c.ID, tt.after)
						if media == eventType {
							body = "data: " + body + "\n\n"
						}
						return reply(w, http.StatusOK, media, body)
					}
					s := newServer(r)
					run(t, r, s, func(w *world) {
						session := w.open()
						s.On(list, bad)
						got, err := session.List(w.Context(), ListRequest{Kind: revision.Tools, Patient: true})
						if well := name == "white space"; (err == nil) != well || (got != nil) != well {
							t.Errorf("the list is %+v, %v", got, err)
						}
						s.On(opening[r], bad)
						if _, err := w.try(); (err == nil) != (name == "white space") {
							t.Errorf("opening a session gave %v", err)
						}
					})
				})
			}
		}
	}
}

// TestListsAreNotKept: a connection keeps the context of its first request. What was fetched
// with it must not stay in memory for as long.
func TestListsAreNotKept(t *testing.T) {
	for era, r := range both {
		t.Run(era, func(t *testing.T) {
			s := newServer(r)
			s.On(list, gives(`{"tools":[{"name":"a","x":"`+strings.Repeat("x", longMessage)+`"}]}`))
			run(t, r, s, func(w *world) {
				kept := &keeping{RoundTripper: w.client.transport}
				w.client.transport = kept
				for bytes := w.fetched(); bytes.Value() != nil; { // until the test's own deadline
					runtime.GC()
				}
				runtime.KeepAlive(kept)
			})
		})
	}
}

// fetched fetches the tools, and returns where their bytes are, if they still are.
func (w *world) fetched() weak.Pointer[byte] {
	w.Helper()
	got, err := w.open().List(w.Context(), ListRequest{Kind: revision.Tools, Patient: true})
	if err != nil {
		w.Fatal(err)
	}
	return weak.Make(&got.Body.Bytes[0])
}

// keeping is a way to a server that keeps the context of each request.
type keeping struct {
	http.RoundTripper

	mu   sync.Mutex
	kept []context.Context //nolint:containedctx // as a connection does
}

func (k *keeping) RoundTrip(r *http.Request) (*http.Response, error) {
	k.mu.Lock()
	k.kept = append(k.kept, r.Context())
	k.mu.Unlock()
	return k.RoundTripper.RoundTrip(r)
}
