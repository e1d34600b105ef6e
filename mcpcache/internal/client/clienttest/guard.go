package clienttest

import (
	"context"
	"fmt"
	"net/http"
	"sync"

	"github.com/caddy-mcp/mcp-cache/mcpcache/guards"
)

// Guard numbers its tokens: t0, t1 and so on. It can renew them as often as
// Renewals says.
type Guard struct {
	// Put puts the credential on a request; nil puts the token on.
	Put func(*http.Request) error

	// Mu guards all that follows while requests are sent.
	Mu       sync.Mutex
	Renewals int
	Token    int
	Renewed  []guards.Challenge
	Used     []string
	Requests int
}

// Authorize implements [guards.Guard].
func (g *Guard) Authorize(_ context.Context, r *http.Request) error {
	if g.Put != nil {
		return g.Put(r)
	}
	g.Mu.Lock()
	defer g.Mu.Unlock()
	g.Requests++
	r.Header.Set("Authorization", fmt.Sprintf("Bearer t%d", g.Token))
	return nil
}

// Identity implements [guards.Guard].
func (g *Guard) Identity() string { return "test" }

// Credential implements [guards.Renewer].
func (g *Guard) Credential(r *http.Request) string { return r.Header.Get("Authorization") }

// Renew implements [guards.Renewer].
func (g *Guard) Renew(_ context.Context, used string, c guards.Challenge) error {
	g.Mu.Lock()
	defer g.Mu.Unlock()
	g.Renewed, g.Used = append(g.Renewed, c), append(g.Used, used)
	if used != fmt.Sprintf("Bearer t%d", g.Token) {
		return nil // it is another one already
	}
	if g.Renewals == 0 {
		return guards.ErrUnauthorized
	}
	g.Renewals--
	g.Token++
	return nil
}

// PlainGuard has no credential, and cannot renew any.
type PlainGuard struct{}

// Authorize implements [guards.Guard].
func (PlainGuard) Authorize(context.Context, *http.Request) error { return nil }

// Identity implements [guards.Guard].
func (PlainGuard) Identity() string { return "plain" }

// Demand lets only that value of the Authorization header in.
func (s *Server) Demand(authorization string) {
	s.OnAll(func(w http.ResponseWriter, r *http.Request, c Call) error {
		if r.Header.Get("Authorization") != authorization {
			return Status(http.StatusUnauthorized, "Www-Authenticate", `Bearer error="invalid_token"`)(w, r, c)
		}
		return s.Answer(w, r, c)
	})
}
