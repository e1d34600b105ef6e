package probe

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// answerWith answers everything in one way.
func answerWith(status int, header, value, body string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if header != "" {
			w.Header().Set(header, value)
		}
		w.WriteHeader(status)
		_, _ = fmt.Fprint(w, body)
	})
}

// only serves a handler at one path.
func only(path string, handler http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle(path, handler)
	return mux
}

// oldTransportServer is a server of the transport with two endpoints.
func oldTransportServer(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		http.Error(w, "use the other endpoint", http.StatusMethodNotAllowed)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = fmt.Fprint(w, "event: endpoint\ndata: /messages?session=1\n\n")
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
}

// TestTroubles says what is wrong with servers that cannot be used, in one
// sentence with what to do. URL and ADDR stand for the server's.
func TestTroubles(t *testing.T) {
	for name, c := range map[string]struct {
		handler http.Handler
		headers []string
		code    string
		want    string
	}{
		"web page": {
			answerWith(200, "Content-Type", "text/html", "<title>Welcome</title>"), nil, "not_mcp",
			"URL is no MCP server, it answers with a web page: use the URL of the MCP endpoint, which often ends in /mcp",
		},
		"other JSON": {
			answerWith(200, "Content-Type", "application/json", `{"hello":"world"}`), nil, "not_mcp",
			"URL is no MCP server, it answers with application/json: use the URL of the MCP endpoint, which often ends in /mcp",
		},
		"file server": {
			answerWith(405, "Allow", "GET", "method not allowed"), nil, "wrong_path",
			"there is no MCP server at URL (HTTP 405): use the URL of the MCP endpoint, which often ends in /mcp",
		},
		"wrong path": {
			only("/api/mcp", newScripted()), nil, "wrong_path",
			"there is no MCP server at URL, but one answers at http://ADDR/api/mcp: use that URL",
		},
		"old transport": {
			http.HandlerFunc(oldTransportServer), nil, "http_sse",
			"URL is a server of the older transport with two endpoints (HTTP+SSE), whose lists cannot be cached: " +
				"have it speak Streamable HTTP, or put a bridge that does in front of it",
		},
		"old transport elsewhere": {
			only("/sse", http.HandlerFunc(oldTransportServer)), nil, "http_sse",
			"http://ADDR/sse is a server of the older transport with two endpoints (HTTP+SSE), whose lists cannot be cached: " +
				"have it speak Streamable HTTP, or put a bridge that does in front of it",
		},
		"OAuth": {
			answerWith(401, "WWW-Authenticate", `Bearer resource_metadata="https://example.com/x"`, ""), nil, "unauthorized",
			`URL asks for credentials (401): give a token with --header "Authorization: Bearer …"`,
		},
		"Basic": {
			answerWith(401, "WWW-Authenticate", `Basic realm="x"`, ""), nil, "unauthorized",
			`URL asks for credentials (401, Basic): give them with --header "Authorization: Basic …"`,
		},
		"expired token": {
			answerWith(401, "WWW-Authenticate", `Bearer error="invalid_token"`, ""), []string{callerA}, "unauthorized",
			"URL does not accept these credentials (401): give others, such as a token that has not expired and is for this server",
		},
		"forbidden": {
			answerWith(403, "", "", ""), nil, "forbidden",
			`URL refuses this caller (403): give the credentials of one that it lets in with --header "Authorization: Bearer …"; one that goes by names may let in another --header "User-Agent: …"`,
		},
		"another Host": {
			answerWith(421, "", "", ""), nil, "host",
			"URL does not answer to the Host ADDR (421): check it at its public address; in front of it, name that Host with header_up Host in reverse_proxy",
		},
		"OAuth in its own network": {
			answerWith(401, "WWW-Authenticate", `Bearer resource_metadata="http://mars.internal:8000/x"`, ""), nil, "unauthorized",
			`URL asks for credentials (401): give a token with --header "Authorization: Bearer …"; it leads clients to mars.internal:8000 to find out where to log in, which not all may reach: configure it with its public address`,
		},
		"slash": {
			answerWith(307, "Location", "/mcp/?secret=x", ""), nil, "redirect",
			"URL redirects (307) to http://ADDR/mcp/, which the cache does not follow: use that URL",
		},
		"sign-in page": {
			answerWith(302, "Location", "https://login.example/", ""), nil, "redirect",
			"URL redirects (302) to https://login.example/, which the cache does not follow: use that URL, " +
				"or, if that is a page to sign in at, give credentials with --header",
		},
		"too many": {
			answerWith(429, "Retry-After", "60", ""), nil, "busy",
			"URL has been asked too often (429): try again later",
		},
		"broken": {
			answerWith(502, "", "", "bad gateway"), nil, "server_error",
			"URL fails (HTTP 502): look into the server's log",
		},
		"refuses": {
			answerWith(200, "Content-Type", "application/json", `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"no \u001b[31mdatabase"}}`), nil, "error",
			"URL refuses initialize (error -32603: no [31mdatabase): look into the server's log",
		},
		"another's answer": {
			answerWith(200, "Content-Type", "text/event-stream", "data: {\"jsonrpc\":\"2.0\",\"id\":77,\"result\":{}}\n\n"), nil, "protocol",
			"URL speaks MCP, but not as the cache has to understand it (calling initialize: the stream ended without an answer): the server needs a correction",
		},
		"revision of the future": {
			answerWith(200, "Content-Type", "application/json", `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2031-01-01","capabilities":{}}}`), nil, "revision",
			"URL does not speak MCP 2025-11-25 but 2031-01-01, of which the cache keeps no lists and passes all on: check the other era, or update the server",
		},
		"revision of the past": {
			answerWith(200, "Content-Type", "application/json", `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2024-11-05","capabilities":{"tools":{}}}}`), nil, "revision",
			"URL does not speak MCP 2025-11-25 but 2024-11-05, of which the cache keeps no lists and passes all on: check the other era, or update the server",
		},
		"a coding": {
			http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.Header().Set("Content-Encoding", "br")
				_, _ = fmt.Fprint(w, "\x8b\x01\x80")
			}), nil, "protocol",
			"URL answers in br, which nobody asked for and the cache does not read: have it answer without a content coding",
		},
		"not readable": {
			answerWith(200, "Content-Type", "application/json", `{"jsonrpc":"2.0","id":1,"result":[]}`), nil, "protocol",
			"URL speaks MCP, but its answer to initialize cannot be read (message is invalid: result is not an object): the server needs a correction",
		},
		"cut": {
			http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }), nil, "cut",
			"ADDR closed the connection in the middle of an answer: look into the server's log; if it speaks TLS, write https://",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantTrouble(t, options(t, serve(t, c.handler), c.headers...), c.code, c.want)
		})
	}
}

// wantTrouble examines a server that cannot be used.
func wantTrouble(t *testing.T, o Options, code, want string) {
	t.Helper()
	r := run(t, o)
	address := strings.TrimSuffix(strings.SplitAfter(r.URL, "://")[1], "/mcp")
	want = strings.ReplaceAll(strings.ReplaceAll(want, "URL", r.URL), "ADDR", address)
	want = strings.ReplaceAll(want, "that "+r.URL, "that URL")
	want = strings.ReplaceAll(want, "the "+r.URL, "the URL")
	switch {
	case r.Trouble == nil || r.Usable || r.Caddyfile != "":
		t.Fatalf("it is usable: %s", asJSON(t, r))
	case r.Trouble.Code != code || r.Trouble.Text != want:
		t.Errorf("got %s: %s\nwant %s: %s", r.Trouble.Code, r.Trouble.Text, code, want)
	}
	if strings.Contains(asJSON(t, r), "secret") {
		t.Error("the report repeats a secret")
	}
}

func TestTroublesBelowHTTP(t *testing.T) {
	t.Run("nothing listens", func(t *testing.T) {
		wantTrouble(t, options(t, fixture.FreeAddr(t)), "refused", "nothing listens at ADDR: start the server, or correct host and port")
	})
	t.Run("unknown name", func(t *testing.T) {
		r := run(t, options(t, "http://does-not-exist.invalid/mcp"))
		if r.Trouble == nil || r.Trouble.Code != "name" || !strings.HasPrefix(r.Trouble.Text, "the host name does-not-exist.invalid cannot be found (") {
			t.Errorf("got %+v", r.Trouble)
		}
	})
	t.Run("no HTTP", func(t *testing.T) {
		wantTrouble(t, options(t, greet(t, "SSH-2.0-OpenSSH_9.9\r\n")), "not_http", "what listens at ADDR does not speak HTTP: correct the port")
	})
	t.Run("plain HTTP", func(t *testing.T) {
		url := serve(t, newScripted())
		wantTrouble(t, options(t, strings.Replace(url, "http:", "https:", 1)), "tls", "ADDR speaks plain HTTP, not TLS: write http:// instead of https://")
	})
	t.Run("TLS", func(t *testing.T) {
		url := listenTo(t, newScripted(), (*httptest.Server).StartTLS)
		wantTrouble(t, options(t, strings.Replace(url, "https:", "http:", 1)), "tls", "URL speaks TLS: write https:// instead of http://")
	})
	t.Run("unknown authority", func(t *testing.T) {
		wantTrouble(t, options(t, listenTo(t, newScripted(), (*httptest.Server).StartTLS)), "tls",
			"the certificate of ADDR is not accepted, because it is signed by an authority that this machine does not know: "+
				"name its CA in SSL_CERT_FILE for this command, and in tls_trust_pool of reverse_proxy for the cache")
	})
	t.Run("no common cipher", func(t *testing.T) {
		url := listenTo(t, newScripted(), func(s *httptest.Server) {
			s.TLS = &tls.Config{MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10}
			s.StartTLS()
		})
		r := run(t, options(t, url))
		if r.Trouble == nil || r.Trouble.Code != "tls" || !strings.HasPrefix(r.Trouble.Text, "no TLS connection to ") {
			t.Errorf("got %+v", r.Trouble)
		}
	})
}

// greet says something to everybody who connects, and returns the address.
func greet(t *testing.T, greeting string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte(greeting))
			_ = c.Close()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	return l.Addr().String()
}

// TestErasAreAskedFor looks for the era that is not there.
func TestErasAreAskedFor(t *testing.T) {
	s := newScripted()
	s.SetRevisions(scripted.LatestLegacy)
	o := options(t, serve(t, s))
	o.Eras = []revision.Era{revision.Modern}
	wantTrouble(t, o, "era", "URL speaks the legacy era only, not the modern one: check it without --era")
	s.SetRevisions(scripted.Modern)
	o.Eras = []revision.Era{revision.Legacy}
	wantTrouble(t, o, "era", "URL speaks the modern era only, not the legacy one: check it without --era")
	o.Eras = []revision.Era{revision.Modern}
	if r := run(t, o); !r.Usable || len(r.Eras) != 1 {
		t.Errorf("got %s", asJSON(t, r))
	}
}

// TestTimeIsBounded examines servers that are slow in every way.
func TestTimeIsBounded(t *testing.T) {
	t.Run("no answer at all", func(t *testing.T) {
		release := make(chan struct{})
		s := newScripted()
		s.SetScript("*", scripted.Hang(release))
		url := serve(t, s)
		defer close(release)
		o := options(t, url)
		o.Timeout = 50 * time.Millisecond
		wantTrouble(t, o, "timeout", "URL did not answer within 50ms, asked once for each era (100ms in all): see whether the server hangs, or give it more with --timeout")
	})
	t.Run("byte by byte", func(t *testing.T) {
		s := newScripted()
		s.SetScript(toolsList, scripted.SlowLoris(make(chan struct{})))
		o := options(t, serve(t, s))
		o.Timeout = 100 * time.Millisecond
		r := run(t, o)
		if tools := list(t, r, "tools"); tools.Failure != "no answer within 100ms" || !r.Usable {
			t.Errorf("the tools are %+v", tools)
		}
	})
	t.Run("slow all the way", func(t *testing.T) {
		s := newScripted()
		for _, method := range scripted.ListMethods() {
			s.SetScript(method, scripted.SlowLoris(make(chan struct{})))
		}
		o := options(t, serve(t, s))
		o.Timeout, o.Total = 10*time.Second, 100*time.Millisecond
		r := run(t, o)
		if !r.Cut || !strings.Contains(r.Text(), "Time ran out before everything had been asked.") {
			t.Errorf("it says %s", r.Text())
		}
		for _, kind := range []string{"tools", "prompts"} { // in its middle, and not asked for any more
			if l := list(t, r, kind); l.Failure != "time ran out" {
				t.Errorf("the %s are %+v", kind, l)
			}
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := newScripted()
		s.SetScript(toolsList, func(x *scripted.Exchange) { cancel(); x.Default() })
		if r, err := Run(ctx, options(t, serve(t, s))); err != nil || !r.Cut {
			t.Errorf("%v, %+v", err, r)
		}
	})
}

// TestSizesAreBounded examines lists of just as much as the cache takes, and
// of one more.
func TestSizesAreBounded(t *testing.T) {
	s := newScripted()
	o := options(t, serve(t, s))
	o.Eras = []revision.Era{revision.Modern}
	items := scripted.Items(toolsList, "v1", 40) // more than discover has
	pages := []scripted.Page{items[:1], items[1:2], items[2:3], items[3:]}
	for _, sse := range []bool{false, true} {
		s.SetSSE(sse)
		s.SetList(toolsList, pages...)
		o.MaxPages, o.MaxList = 4, 1<<20
		if tools := list(t, run(t, o), "tools"); tools.Failure != "" || tools.Pages != 4 || tools.Items != 40 {
			t.Errorf("four pages: %+v", tools)
		}
		o.MaxPages = 3
		if tools := list(t, run(t, o), "tools"); tools.Failure != "the cache takes 3 pages of a list at most (max_pages)" {
			t.Errorf("one page too many: %+v", tools)
		}
		o.MaxPages = 20
		s.SetList(toolsList, items)
		whole := messageBytes(t, s, o)
		o.MaxList = whole
		if tools := list(t, run(t, o), "tools"); tools.Failure != "" {
			t.Errorf("sse %v: a list of %d bytes: %+v", sse, whole, tools)
		}
		o.MaxList = whole - 1
		if tools := list(t, run(t, o), "tools"); !strings.HasPrefix(tools.Failure, "the cache takes ") || !strings.HasSuffix(tools.Failure, "(max_list)") {
			t.Errorf("sse %v: a list of one byte more: %+v", sse, tools)
		}
	}
}

// messageBytes is how long the first answer with the tools is.
func messageBytes(t *testing.T, s http.Handler, o Options) (n int64) {
	t.Helper()
	o.URL = serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n > 0 || r.Header.Get("Mcp-Method") != toolsList {
			s.ServeHTTP(w, r)
			return
		}
		answer := httptest.NewRecorder()
		s.ServeHTTP(answer, r)
		body := answer.Body.String()
		if _, data, found := strings.Cut(body, "data: "); found {
			body = strings.ReplaceAll(strings.TrimSpace(data), "\ndata: ", "\n")
		}
		n = int64(len(body))
		maps.Copy(w.Header(), answer.Header())
		_, _ = w.Write(answer.Body.Bytes())
	}))
	run(t, o)
	return n
}
