package mcpcache

import (
	"fmt"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/budget"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/exit"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/notices"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/session"
)

// defaultSessionTTL is that of the option session_ttl: some clients do not open another
// session when theirs has ended (claude-code#62008).
const (
	defaultSessionTTL  = 720 * time.Hour
	defaultMaxSessions = 10_000
	// MostSessions is the largest value of the option max_sessions.
	MostSessions = 1_000_000
)

// clients is what there is of the clients of a toolkit that a reload keeps: what is open for
// their sessions, who listens for changes, and what is on its way.
type clients struct {
	sessions *session.Table
	board    *notices.Board
	messages *budget.Room // on their way to and from programs
}

// openClients takes what there is of the toolkit's clients. Their streams end when the process does, as
// Caddy waits for requests before it cleans up.
func (h *Handler) openClients(ctx caddy.Context, name string) (err error) {
	if h.ids, err = newSealing("sessions", h.SecretFile, session.NewSealer, h.logger); err != nil {
		return err
	}
	h.clientsKey = "clients of " + name
	value, _, err := pool.LoadOrNew(h.clientsKey, func() (caddy.Destructor, error) {
		return &clients{session.NewTable(), notices.NewBoard(), budget.NewRoom(0)}, nil
	})
	if err != nil {
		h.clientsKey = ""
		return err
	}
	h.clients = value.(*clients)
	most := orDefault(h.MaxSessions, defaultMaxSessions)
	h.clients.sessions.SetMost(most)
	h.clients.board.SetMost(most)
	h.clients.messages.SetLimit(h.settings.backend.Memory)
	for _, s := range h.Servers {
		if s.program != nil {
			s.program.ShareMemory(h.clients.messages)
		}
	}
	h.ids.use(h.clients.sessions.Secret)
	return exit.Before(ctx, h.clients.board.End)
}

// Destruct implements [caddy.Destructor]. The servers end their sessions by themselves: there
// may be more than can be ended in the time that there is.
func (c *clients) Destruct() error {
	c.board.End()
	return nil
}

// checkSessions returns an error if sessions cannot be so many, or last so long.
func (h *Handler) checkSessions() error {
	if h.MaxSessions < 0 || h.MaxSessions > MostSessions {
		return fmt.Errorf("max_sessions: %d is not a whole number from 1 to %d", h.MaxSessions, MostSessions)
	}
	return checkDuration("session_ttl", orDefault(time.Duration(h.SessionTTL), defaultSessionTTL), time.Second)
}

// Interface guard
var _ caddy.Destructor = (*clients)(nil)
