package client

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/guards"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client/clienttest"
)

func TestEveryRequestIsAuthorized(t *testing.T) {
	for era, r := range both {
		t.Run(era, func(t *testing.T) {
			s := newServer(r)
			run(t, r, s, func(w *world) {
				g := new(clienttest.Guard)
				w.policy.Guard = g
				session := w.open()
				_, stop := w.listen(session)
				w.wantNames(session, "tools_a tools_b")
				s.Send(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
				w.after(0)
				stop()
				session.Close(time.Second)
				if g.Requests != len(s.Headers) {
					t.Errorf("the guard saw %d of %d requests", g.Requests, len(s.Headers))
				}
				for i, header := range s.Headers {
					if got := header["Authorization"]; len(got) != 1 || got[0] != "Bearer t0" {
						t.Errorf("request %d carries %q", i, got)
					}
				}
			})
		})
	}
}

// A request that is refused is sent once more with a new credential.
func TestRefusedCredentialIsRenewed(t *testing.T) {
	for era, r := range both {
		t.Run(era, func(t *testing.T) {
			s := newServer(r)
			s.Demand("Bearer t1")
			run(t, r, s, func(w *world) {
				g := &clienttest.Guard{Renewals: 1}
				w.policy.Guard = g
				session := w.open()
				if len(g.Renewed) != 1 || g.Used[0] != "Bearer t0" {
					t.Fatalf("renewed %d times, used %q", len(g.Renewed), g.Used)
				}
				c := g.Renewed[0]
				if c.Status != 401 || c.Endpoint != "http://upstream.test/mcp" || len(c.WWWAuthenticate) != 1 ||
					c.WWWAuthenticate[0] != `Bearer error="invalid_token"` {
					t.Errorf("the challenge is %+v", c)
				}
				w.wantNames(session, "tools_a tools_b")
				w.wantCalls(list, 1)

				s.Demand("Bearer t2") // the next one has expired
				g.Renewals = 1
				w.wantNames(session, "tools_a tools_b")
				w.wantCalls(list, 3)
			})
		})
	}
}

// One more attempt and no more, if the new credential is refused too.
func TestRenewedOnceForARequest(t *testing.T) {
	s := newServer(modern)
	s.Demand("Bearer none")
	run(t, modern, s, func(w *world) {
		g := &clienttest.Guard{Renewals: 1000}
		w.policy.Guard = g
		if _, err := w.try(); !Refused(err) {
			t.Errorf("got error %v", err)
		}
		w.wantCalls("server/discover", 2)
		if len(g.Renewed) != 1 {
			t.Errorf("renewed %d times", len(g.Renewed))
		}
	})
}

// secretGuard has one token, which an upstream may repeat.
type secretGuard struct {
	header, value string
	renew         func(used string) error
}

func (g *secretGuard) Authorize(_ context.Context, r *http.Request) error {
	r.Header.Set(g.header, g.value)
	return nil
}

func (g *secretGuard) Identity() string { return "secret" }

func (g *secretGuard) Credential(r *http.Request) string { return r.Header.Get(g.header) }

func (g *secretGuard) Renew(_ context.Context, used string, _ guards.Challenge) error {
	return g.renew(used)
}

// A credential that an upstream repeats is hidden in every form, wherever it
// has put it.
func TestRepeatedCredentialIsHidden(t *testing.T) {
	const token = "s3cr3t/tok+en~0123456789=%"
	forms := map[string]string{
		"raw": token, "query": url.QueryEscape(token), "path": url.PathEscape(token), "upper case": strings.ToUpper(token),
		"JSON": strings.ReplaceAll(token, "/", `\/`), "code points": `\u0073` + token[1:],
		"base64": base64.StdEncoding.EncodeToString([]byte("user:" + token)),
	}
	for name, value := range map[string]string{
		"bearer": "Bearer " + token, "alone": token,
		"basic": "Basic " + base64.StdEncoding.EncodeToString([]byte("user:"+token)),
	} {
		for form, shown := range forms {
			for where, answer := range map[string]script{
				"error":   raw(`{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"no rights for ` + shown + `"}}`),
				"failure": func(http.ResponseWriter, *http.Request, call) error { return errors.New("upstream said " + shown) },
				"renewal": status(http.StatusUnauthorized),
			} {
				s := newServer(modern)
				s.OnAll(answer)
				run(t, modern, s, func(w *world) {
					g := &secretGuard{"X-Credential", value, func(string) error { return errors.New("asked at " + shown) }}
					if name != "alone" {
						g.header = "Authorization"
					}
					w.policy.Guard = g
					_, err := w.try()
					text := err.Error()
					if whole := strings.ToLower(shown); !strings.Contains(text, "*") && !strings.Contains(text, "[hidden]") ||
						strings.Contains(strings.ToLower(text), whole[5:15]) {
						t.Errorf("%s, %s in %s: %s", name, form, where, text)
					}
				})
			}
		}
	}
}

// Of a credential that is longer than what is shown, no half is shown.
func TestLongCredentialInAHeader(t *testing.T) {
	token := strings.Repeat("abcdefghijklmnop0123456789", 20)
	for name, answer := range map[string]script{
		"content type": func(w http.ResponseWriter, _ *http.Request, _ call) error { return reply(w, 200, "text/"+token, "x") },
		"content encoding": func(w http.ResponseWriter, _ *http.Request, _ call) error {
			w.Header().Set("Content-Encoding", "x-"+token)
			return reply(w, 200, "application/json", "x")
		},
	} {
		s := newServer(modern)
		s.OnAll(answer)
		run(t, modern, s, func(w *world) {
			w.policy.Guard = &secretGuard{header: "Authorization", value: "Bearer " + token}
			_, err := w.try()
			text := err.Error()
			if strings.Contains(text, token[:10]) || !strings.Contains(text, "[hidden]") {
				t.Errorf("%s: %s", name, text)
			}
		})
	}
}

func TestBrief(t *testing.T) {
	for size, want := range map[int]int{0: 0, MaxErrorText: MaxErrorText, MaxErrorText + 1: MaxErrorText} {
		err := fmt.Errorf("%s%w", strings.Repeat("x", max(0, size-len(clienttest.ErrRefused.Error()))), clienttest.ErrRefused)
		if size == 0 {
			err, want = clienttest.ErrRefused, len(clienttest.ErrRefused.Error())
		}
		if got := Brief(err); len(got.Error()) != want || !errors.Is(got, clienttest.ErrRefused) {
			t.Errorf("%d bytes became %d", size, len(got.Error()))
		}
	}
}
