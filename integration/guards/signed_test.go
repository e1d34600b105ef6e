package guards

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// signature returns the signature of a request over its Host, Accept-Encoding and body.
func signature(host, acceptEncoding string, body []byte) string {
	mac := hmac.New(sha256.New, []byte("shared key"))
	_, _ = fmt.Fprintf(mac, "%s\n%s\n%s", host, acceptEncoding, body)
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// signers sign a request in the manner of their name.
var signers = map[string]func(h http.Header, signature string){
	"AWS4": func(h http.Header, signature string) {
		h.Set("Authorization", "AWS4-HMAC-SHA256 Credential=test, SignedHeaders=accept-encoding;host, Signature="+signature)
	},
	"RFC 9421": func(h http.Header, signature string) {
		h.Set("Signature-Input", `sig=("@authority" "accept-encoding" "content-digest");keyid="test"`)
		h.Set("Signature", "sig=:"+signature+":")
	},
}

// verifies has a server refuse requests whose signature does not fit, and compress its
// answers to those whose does.
func verifies(s *scripted.Server) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		signed := r.Header.Get("Authorization") + r.Header.Get("Signature")
		if signed == "" {
			s.ServeHTTP(w, r)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil || !strings.Contains(signed, signature(r.Host, r.Header.Get("Accept-Encoding"), body)) {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if r.Header.Get("Accept-Encoding") == "gzip" {
			w.Header().Set("Content-Encoding", "gzip")
			zip := gzip.NewWriter(w)
			defer func() { _ = zip.Close() }()
			w = &zipped{w, zip}
		}
		s.ServeHTTP(w, r)
	})
}

// zipped is a response writer whose body is compressed.
type zipped struct {
	http.ResponseWriter
	to io.Writer
}

func (z *zipped) WriteHeader(status int) {
	z.Header().Del("Content-Length")
	z.ResponseWriter.WriteHeader(status)
}

func (z *zipped) Write(p []byte) (int, error) { return z.to.Write(p) }

// TestSignedRequestsPass has requests signed over their Host and Accept-Encoding: the
// server gets them as they were sent, and the lists of others stay hits, although answers
// are compressed (mcp-proxy-for-aws#313).
func TestSignedRequestsPass(t *testing.T) {
	for name, sign := range signers {
		for _, encoding := range []string{"gzip", "identity"} {
			t.Run(name+"/"+encoding, func(t *testing.T) {
				caddytest.EachEra(t, func(t *testing.T, revision string) {
					w := caddytest.NewUpstreamBehind(t, verifies)
					options := []string{"origins https://mcp.example.com"}
					if encoding == "identity" {
						options = append(options, "deny tools hidden") // answers have to be read
					}
					w.Start(options...)
					others := w.Warm(revision)
					c := w.Client(revision)
					send := func(method, params string) *fixture.Answer {
						t.Helper()
						body, h := fixture.Message(c.NextID(), method, c.Params(params)), make(http.Header)
						h.Set("Accept-Encoding", encoding)
						h.Set("Host", "mcp.example.com")
						if c.Modern() {
							h.Set("Mcp-Method", method)
						}
						sign(h, signature("mcp.example.com", encoding, []byte(body)))
						a, err := c.Try(context.Background(), http.MethodPost, body, h)
						if err != nil {
							t.Fatal(err)
						}
						return fixture.Decoded(t, a)
					}
					caddytest.AwaitReady(t, "mcp_cache") // the feed of the other era, too
					before := w.Host.CountFeed(scripted.ToolsList)
					for range 5 {
						a := send(scripted.ToolsList, "")
						if got := a.Header.Get("Cache-Status"); caddytest.MarkOf(a, scripted.ToolsList) != "v1" || got != "mcp_cache; fwd=bypass; detail=signed" {
							t.Errorf("a list: %q, %s", got, a)
						}
						if a := send("ping", ""); a.Status != http.StatusOK {
							t.Errorf("another request: %s", a)
						}
						caddytest.WantHit(t, others.List(scripted.ToolsList), scripted.ToolsList, "v1")
					}
					if n := w.Host.CountFeed(scripted.ToolsList); n != before {
						t.Errorf("the feed asked %d times more", n-before)
					}
				})
			})
		}
	}
}
