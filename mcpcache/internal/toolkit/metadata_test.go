package toolkit

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client/clienttest"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/jsonrpc"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/outcome"
)

// door returns a server whose metadata is that, and what is otherwise than by default where it is the door.
func door(address string, metadata clienttest.Script) (*member, setup) {
	one := serves("one").with(func(m *member) { m.of.URL = address })
	one.On(http.MethodGet, func(w http.ResponseWriter, r *http.Request, c clienttest.Call) error {
		if strings.Contains(r.URL.Path, "/.well-known/") {
			return metadata(w, r, c)
		}
		return one.Answer(w, r, c)
	})
	one.On(http.MethodHead, metadata)
	return one, setup{settings: func(s *Settings) { s.Door = "one" }, origins: []string{"https://app.test"}}
}

// isNotFound reports whether Caddy is told to answer with 404.
func isNotFound(a *received) bool {
	failed, ok := errors.AsType[caddyhttp.HandlerError](a.err)
	return ok && failed.StatusCode == http.StatusNotFound && a.Body.Len() == 0
}

// The metadata of the door is found at each of its paths, with the path of the endpoint or with that of the door. All else
// that looks like metadata is not there.
func TestPathsOfMetadata(t *testing.T) {
	const (
		resource = "/.well-known/oauth-protected-resource"
		server   = "/.well-known/oauth-authorization-server"
		openID   = "/.well-known/openid-configuration"
	)
	for address, paths := range map[string]map[string]string{
		"http://one.test/deep/api": {
			resource: resource, resource + "/mcp": resource + "/deep/api", resource + "/deep/api": resource + "/deep/api",
			resource + "/team/mcp": resource + "/deep/api", resource + "/other": "", resource + "/mcp/": "", resource + "2": "",
			server: server, server + "/mcp": server + "/deep/api", server + "/deep/api": server + "/deep/api",
			server + "/team/mcp": server + "/team/mcp", server + "/a/b.c~1": server + "/a/b.c~1",
			server + "/a/../b": "", server + "/a//b": "", server + "/a/": "", server + "/a b": "", server + "x": "", server + "/.": "",
			openID: openID, openID + "/mcp": openID + "/deep/api", openID + "/issuer": openID + "/issuer", openID + "x": "",
			"/mcp" + openID: "/deep/api" + openID, "/.well-known/oauth-other": "",
		},
		"http://one.test": {resource: resource, resource + "/mcp": resource + "/", "/mcp" + openID: "/" + openID},
	} {
		one, with := door(address, clienttest.Raw("{}"))
		runWith(t, with, func(w *world) {
			records, c := one.records(), w.calls(modern)
			for path, want := range paths {
				r := c.request(http.MethodGet, "/", "")
				r.URL.Path = path
				a := c.send(r)
				sent := records.take()
				switch {
				case want == "" && (!isNotFound(a) || len(sent) > 0):
					w.Errorf("%s is answered with %s, and the server is sent %v", path, a, sent)
				case want != "" && (a.Code != http.StatusOK || len(sent) != 1 || sent[0].URL.String() != want || a.status() != "fwd=bypass; detail=routed"):
					w.Errorf("%s is answered with %s, and the server is sent %v, want %s", path, a, sent, want)
				}
			}
		}, one)
	}
}

// Without a door, there is no metadata. Other paths are those of the next handler.
func TestNoMetadataWithoutADoor(t *testing.T) {
	for door, paths := range map[string]map[string]bool{
		"": {
			wellKnown[0]: false, wellKnown[0] + "/mcp": false, wellKnown[1] + "/a": false, wellKnown[2]: false,
			"/mcp" + wellKnown[2]: false, "/.well-known/oauth-other": false,
			"/.well-known/other": true, "/mcp" + wellKnown[0]: true, "/well-known": true,
		},
		"one": {"/.well-known/other": true, "/mcp" + wellKnown[0]: true, "/mcp" + wellKnown[1]: true},
	} {
		one := serves("one")
		runWith(t, setup{settings: func(s *Settings) { s.Door = door }}, func(w *world) {
			records, c := one.records(), w.calls(modern)
			for path, want := range paths {
				next := false
				c.next = caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error {
					next = true
					return nil
				})
				if a := c.send(c.request(http.MethodGet, path, "")); next != want || isNotFound(a) == want || len(records.take()) > 0 {
					w.Errorf("with the door %q, %s is answered with %s, and is the next handler's: %v", door, path, a, next)
				}
			}
		}, one)
	}
}

// Metadata is read by GET and HEAD alone. A browser may ask first.
func TestMethodsOfMetadata(t *testing.T) {
	one, with := door("http://one.test/mcp", clienttest.Raw("{}"))
	runWith(t, with, func(w *world) {
		records, c := one.records(), w.calls(modern)
		for method, want := range map[string]int{
			http.MethodGet: http.StatusOK, http.MethodHead: http.StatusOK, http.MethodOptions: http.StatusNoContent,
			http.MethodPost: http.StatusMethodNotAllowed, http.MethodDelete: http.StatusMethodNotAllowed,
		} {
			a := c.send(c.request(method, wellKnown[0], "", "Origin", "https://app.test"))
			code := 0
			if want == http.StatusMethodNotAllowed {
				code = jsonrpc.InvalidRequest
			}
			a.want(w, method, want, code)
			if allow := a.Header().Get("Allow"); code != 0 && allow != "GET, HEAD" {
				w.Errorf("%s is answered with Allow: %q", method, allow)
			}
			if sent := len(records.take()); (sent == 1) != (want == http.StatusOK) {
				w.Errorf("%s reaches the server %d times", method, sent)
			}
			if got := a.Header().Get("Access-Control-Allow-Origin"); got != "https://app.test" {
				w.Errorf("%s may be read by %q", method, got)
			}
		}
	}, one)
}

// The door is sent nothing of the caller's but what is harmless. The caller is given what is about the answer itself.
func TestMetadataPassesAlone(t *testing.T) {
	one, with := door("http://one.test:8000/mcp", func(w http.ResponseWriter, _ *http.Request, _ clienttest.Call) error {
		h := w.Header()
		for _, name := range []string{"Cache-Control", "Set-Cookie", "Mcp-Session-Id", "Access-Control-Allow-Origin", "X-Own"} {
			h.Set(name, "theirs")
		}
		h.Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusEarlyHints)
		_, err := io.WriteString(w, "{}")
		if err == nil {
			err = http.NewResponseController(w).Flush()
		}
		return err
	})
	one.personal()
	runWith(t, with, func(w *world) {
		records, c := one.records(), w.calls(modern)
		private := []string{"Authorization", "Bearer a", "Cookie", "a=1", "X-Forwarded-For", "192.0.2.1"}
		a := c.send(c.request(http.MethodGet, wellKnown[0]+"?key=1", "{}", append(private, "User-Agent", "u")...))
		a.want(w, "metadata", http.StatusOK, 0)
		want := http.Header{
			"Cache-Control": {"theirs"}, "Content-Type": {"application/json"}, "Cache-Status": {"mcp_cache; fwd=bypass; detail=routed"},
		}
		if got := a.Header(); len(got) != len(want) || a.Body.String() != "{}" || !a.Flushed {
			w.Errorf("the caller is given %v with %s, flushed: %v", got, a.Body, a.Flushed)
		}
		for name, values := range want {
			if !slices.Equal(a.Header()[name], values) {
				w.Errorf("the caller is given %s: %q", name, a.Header()[name])
			}
		}
		sent := records.take()[0]
		if sent.URL.String() != wellKnown[0] || sent.Host != "one.test:8000" || sent.body != "" || sent.Header.Get("User-Agent") != "u" {
			w.Errorf("the door is sent %v", sent)
		}
		for _, name := range []string{"Authorization", "Cookie", "X-Forwarded-For"} {
			if sent.Header[name] != nil {
				w.Errorf("the door is sent %s: %q", name, sent.Header[name])
			}
		}
		for _, o := range []*observed{w.observed, &one.observed} {
			if !slices.Equal(o.outcomes, []outcome.Outcome{outcome.Routed}) || o.servers[0] != "one" {
				w.Errorf("the metrics count %v of %v", o.outcomes, o.servers)
			}
		}
	}, one)
}

// A caller is given errors of the door as they are, and not sent elsewhere by it.
func TestStatusesOfMetadata(t *testing.T) {
	for status, want := range map[int]int{
		http.StatusNotFound: http.StatusNotFound, http.StatusUnauthorized: http.StatusUnauthorized, http.StatusInternalServerError: 500,
		http.StatusFound: http.StatusNotFound, http.StatusPermanentRedirect: http.StatusNotFound,
	} {
		one, with := door("http://one.test/mcp", clienttest.Status(status, "Location", "http://one.test/login", "Content-Length", "6"))
		runWith(t, with, func(w *world) {
			c := w.calls(modern)
			a := c.send(c.request(http.MethodGet, wellKnown[0], ""))
			leads := status >= 300 && status < 400
			if a.Code != want || a.err != nil || a.Header().Get("Location") != "" || (a.Body.Len() == 0) != leads {
				w.Errorf("%d gives %s", status, a)
			}
			if told := a.Header().Get("Content-Length") != ""; told == leads {
				w.Errorf("%d gives the length %q", status, a.Header().Get("Content-Length"))
			}
		}, one)
	}
}

// A caller is told that the door does not show its metadata, and the operator is told so once. Nobody is told anything of a
// caller who has gone.
func TestMetadataThatIsNotShown(t *testing.T) {
	one, with := door("http://one.test/mcp", clienttest.Refuse)
	runWith(t, with, func(w *world) {
		c := w.calls(modern)
		for range 2 {
			a := c.send(c.request(http.MethodGet, wellKnown[0], ""))
			a.want(w, "metadata", http.StatusBadGateway, jsonrpc.InternalError)
			if a.says() != `the MCP server "one" does not show its metadata` {
				w.Errorf("the caller is told %q", a.says())
			}
		}
		w.wantLogged("door does not show its metadata: one")
		one.On(http.MethodGet, clienttest.Raw("{}"))
		c.send(c.request(http.MethodGet, wellKnown[0], "")).want(w, "metadata", http.StatusOK, 0)
		if n := w.logs.FilterMessage("door shows its metadata again").Len(); n != 1 {
			w.Errorf("the log has the end of that %d times", n)
		}
		w.after(time.Hour)
		w.logs.TakeAll()
		one.On(http.MethodGet, clienttest.Hang)
		a, leave := c.begin(c.request(http.MethodGet, wellKnown[0], ""))
		leave()
		if !errors.Is(a.err, context.Canceled) || a.Body.Len() > 0 {
			w.Errorf("who has gone is given %s", a)
		}
		w.wantLogged()
	}, one)
}

// Pages may read metadata as the door says, but not if the way to it lends them a credential. No page may do more.
func TestPagesThatReadMetadata(t *testing.T) {
	for _, lends := range []bool{false, true} {
		one, with := door("http://one.test/mcp", clienttest.Raw("{}"))
		one.of.LendsCredentials = lends
		runWith(t, with, func(w *world) {
			c := w.calls(modern)
			for name, p := range pages {
				letIn := p.letIn || !lends && p.host == ""
				a := p.send(c, c.request(http.MethodGet, wellKnown[0], ""))
				if (a.Code == http.StatusOK) != letIn || !letIn && (a.Code != http.StatusForbidden || a.status() != "detail=origin") {
					w.Errorf("%s is answered with %s, and credentials are lent: %v", name, a, lends)
				}
				a = p.send(c, c.request(http.MethodPost, wellKnown[0], "{}"))
				if (a.Code == http.StatusForbidden) == p.letIn {
					w.Errorf("%s may post: %s", name, a)
				}
			}
		}, one)
	}
}
