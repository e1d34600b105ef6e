package exchange

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestForwardedBodyIsExact sends bodies of every fate: they arrive as they left.
func TestForwardedBodyIsExact(t *testing.T) {
	f := newFace(t, config{MaxRequest: 4000})
	var arrived []byte
	f.upstreamIs(func(w http.ResponseWriter, r *http.Request) (err error) {
		arrived, err = io.ReadAll(r.Body)
		w.WriteHeader(http.StatusAccepted)
		return err
	})
	for name, content := range map[string]string{
		"batch":      `[{"jsonrpc":"2.0","id":1,"method":"tools/list"}]`,
		"no JSON":    "\x00\xff{,",
		"empty":      "",
		"list":       `{"jsonrpc":"2.0","id":1,"method":"tools/list"}` + "\r\n ",
		"call":       `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"n":1.0e+00}}}`,
		"at limit":   strings.Repeat(" ", 4000),
		"over limit": strings.Repeat(" ", 4001),
		"far over":   strings.Repeat("0123456789", 100_000),
	} {
		for _, told := range []bool{true, false} {
			r := post("")
			withBody(r, content)
			if !told {
				r.ContentLength = -1
			}
			arrived = nil
			if w := f.serve(t, r); w.Code != http.StatusAccepted || !bytes.Equal(arrived, []byte(content)) {
				t.Errorf("%s (told: %v): got %d, %d bytes arrived", name, told, w.Code, len(arrived))
			}
		}
	}
}
