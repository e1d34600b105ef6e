package views

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
)

// TestHostileHTTP2 asks a liberal server for what is hidden by HTTP/2, which has bodies
// without a length, for requests of any method.
func TestHostileHTTP2(t *testing.T) {
	host := fixture.NewHost(t, http.HandlerFunc(liberal))
	p := caddytest.StartProxyOf(t, "protocols h1 h2c", veiled(host.URL, "deny"))
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols, DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	v := &veil{t: t, host: host, proxy: p, asked: func() []string { return nil }}
	c := &caller{v: v}
	ask := func(method, path, body string, length int64) *fixture.Answer {
		r, err := http.NewRequestWithContext(context.Background(), method, "http://"+p.Addr+path, io.NopCloser(strings.NewReader(body)))
		if err != nil {
			t.Fatal(err)
		}
		r.ContentLength = length
		r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "User-Agent": {"mcptest"}}
		res, err := transport.RoundTrip(r)
		if err != nil {
			t.Fatalf("%s %s: %v", method, path, err)
		}
		defer res.Body.Close()
		if res.ProtoMajor != 2 {
			t.Fatalf("this is %s", res.Proto)
		}
		read, _ := io.ReadAll(res.Body) // an answer that is cut off is one too
		a := &fixture.Answer{Status: res.StatusCode, Header: res.Header, Body: read}
		c.wantUnseen(method+" "+path, a, hushed+"-2")
		return a
	}
	for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodPut, http.MethodDelete, http.MethodOptions} {
		for _, path := range []string{"/mcp", "/mcp/"} {
			for what, params := range map[string]string{"tools/call": `{"name":"` + hushed + `-2"}`, "tools/list": "{}"} {
				body := fixture.Message("7", what, params)
				ask(method, path, body, -1)
				ask(method, path, body, int64(len(body)))
			}
		}
	}
	for _, length := range []int64{-1, 0} {
		if a := ask(http.MethodGet, "/mcp", "", length); !bytes.Contains(a.Body, []byte("open-1")) {
			t.Errorf("a stream of length %d gave %d, %s", length, a.Status, a.Body)
		}
	}
	v.wantUntold()
}
