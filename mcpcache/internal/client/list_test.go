package client

import (
	"net/http"
	"slices"
	"strings"
	"testing"

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
		"another's, then its own": {events(other, whole), nil},
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
