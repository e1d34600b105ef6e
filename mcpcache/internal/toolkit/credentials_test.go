package toolkit

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/identity"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// fields are fields of a client's header, and whether every server is sent them, or one may be where the operator wants that.
var fields = map[string]struct{ passes, mayPass bool }{
	// of the message
	"Accept": {true, false}, "Accept-Language": {true, false}, "Content-Type": {true, false}, "User-Agent": {true, false},
	"Mcp-Protocol-Version": {true, false}, "Mcp-Method": {true, false}, "Mcp-Name": {true, false}, "Cache-Control": {true, false},
	"Traceparent": {true, false}, "X-Request-Id": {true, false}, "Idempotency-Key": {true, false}, "Mcp-Param-Region": {true, true},
	// of the page, the connection or the session
	"Accept-Encoding": {false, false}, "Range": {false, false}, "If-None-Match": {false, false}, "Origin": {false, false},
	"Referer": {false, false}, "Host": {false, false}, "Mcp-Session-Id": {false, false}, "Last-Event-Id": {false, false},
	"Connection": {false, false}, "Upgrade": {false, false}, "Te": {false, false}, "Transfer-Encoding": {false, false},
	"Expect": {false, false}, "Content-Length": {false, false}, "Via": {false, false},
	// of where the client is
	"X-Forwarded-For": {false, false}, "X-Forwarded-Host": {false, false}, "X-Forwarded-Proto": {false, false},
	"X-Real-Ip": {false, true}, "X-Envoy-External-Address": {false, true}, "Cf-Connecting-Ip": {false, true},
	"Cf-Ipcountry": {false, true}, "Cf-Visitor": {false, true}, "True-Client-Ip": {false, true}, "Fly-Client-Ip": {false, true},
	// what may be a credential
	"Authorization": {false, true}, "Cookie": {false, true}, "X-Api-Key": {false, true}, "X-Forwarded-User": {false, true},
	"X-Made-Up": {false, true}, "Mcp-Made-Up": {false, true}, "Proxy-Authorization": {false, false},
}

// An operator can have fields be sent to a server that are not about the message, the connection or the session.
func TestFieldsThatMayPass(t *testing.T) {
	for name, want := range fields {
		if got := MayPass(name); got != want.mayPass {
			t.Errorf("%s may pass: %v, want %v", name, got, want.mayPass)
		}
		if got := Passes(name); got != want.passes {
			t.Errorf("%s passes: %v, want %v", name, got, want.passes)
		}
	}
}

// Every server is sent what is known to be harmless of a client's header, and nothing else of it.
func TestServersAreSentWhatIsHarmless(t *testing.T) {
	for of, speaks := range serving {
		one := serves("one", speaks...)
		run(t, func(w *world) {
			records := one.records()
			w.eachEra(func(c *caller) {
				params := `"name":"one__tools_a","arguments":{}`
				named := []string{"Mcp-Method", "tools/call", "Mcp-Name", "one__tools_a"}
				r := c.request(http.MethodPost, "/mcp", c.message("tools/call", params), named...)
				for name := range fields {
					if r.Header[name] == nil && !slices.Contains([]string{"Connection", "Mcp-Session-Id", "Mcp-Protocol-Version"}, name) {
						r.Header[name] = []string{"own", "other"}
					}
				}
				r.Header["Origin"] = []string{"http://site.test"}
				r.Header["Host"] = []string{"site.test"}
				before := r.Header.Clone()
				c.send(r).wantOf(w, "one")
				sent := records.of("tools/call")
				if len(sent) != 1 {
					w.Fatalf("the server is called %d times", len(sent))
				}
				for name, values := range before {
					got, ours := sent[0].Header[name], strings.HasPrefix(name, "Mcp-") || name == "Content-Length" || name == "Accept"
					switch want := fields[name].passes; {
					case name == "Mcp-Param-Region" && !slices.Equal(got, values) && c.at == modern && of != "legacy":
						w.Errorf("%s is sent as %q", name, got)
					case !ours && (len(got) > 0) != want, !ours && want && !slices.Equal(got, values):
						w.Errorf("a server of %s is sent %s: %q", of, name, got)
					}
				}
				if id := sent[0].Header.Get("Mcp-Session-Id"); c.session != "" && id == c.session {
					w.Error("the server is sent the client's session")
				}
			})
		}, one)
	}
}

// A field of the header that a client names in Connection is for the endpoint alone, however harmless it is.
func TestServersAreNotSentFieldsOfTheConnection(t *testing.T) {
	for of, speaks := range serving {
		one := serves("one", speaks...)
		run(t, func(w *world) {
			records := one.records()
			w.eachEra(func(c *caller) {
				for connection, want := range map[string]bool{"": true, "Tracestate": false, "close, tracestate": false} {
					c.header.Set("Tracestate", "own=1")
					if c.header.Set("Connection", connection); connection == "" {
						c.header.Del("Connection")
					}
					c.call("one__tools_a").wantOf(w, "one")
					if got := records.last(w, "tools/call").Header.Get("Tracestate"); (got != "") != want {
						w.Errorf("with Connection: %q, a server of %s is sent Tracestate: %q", connection, of, got)
					}
				}
			})
		}, one)
	}
}

// TestOrigins: a caller counts alone once the server has accepted the caller. Until then, all callers of
// one network count together.
func TestOrigins(t *testing.T) {
	v, s := personalViewer(t)
	origin := func(client string) string {
		own := *v
		own.r = v.r.WithContext(context.WithValue(t.Context(), caddyhttp.VarsCtxKey, map[string]any{caddyhttp.ClientIPVarKey: client}))
		return own.origin(s, s.at(own.at), revision.Tools)
	}
	for _, same := range [][2]string{{"192.0.2.1", "::ffff:192.0.2.1"}, {"2001:db8:1:2::3", "2001:db8:1:2:ffff::"}, {"@", "@"}} {
		if origin(same[0]) != origin(same[1]) {
			t.Errorf("%s and %s are told apart", same[0], same[1])
		}
	}
	for _, others := range [][2]string{{"192.0.2.1", "192.0.2.2"}, {"2001:db8:1:2::3", "2001:db8:1:3::3"}, {"@", ""}} {
		if origin(others[0]) == origin(others[1]) {
			t.Errorf("%s and %s are not told apart", others[0], others[1])
		}
	}
	stranger := origin("192.0.2.1")
	until := identity.AdmittedUntil(v.r, v.now, time.Minute)
	s.Admission.AdmitContext(v.callerAt(s).Context, revision.LatestModern, revision.SetOf(revision.Tools), s.Admission.Ticket(), until)
	if known := origin("192.0.2.1"); known == stranger || known != origin("192.0.2.2") {
		t.Errorf("a known caller counts as %q", known)
	}
	if v.now = v.now.Add(time.Hour); origin("192.0.2.1") != stranger {
		t.Error("a caller is known although that is long ago")
	}
}
