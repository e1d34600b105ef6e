package mcpcache

import (
	"fmt"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/exit"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/seal"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/session"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/toolkit"
)

// defaultSessionTTL is that of the option session_ttl: some clients do not open another
// session when theirs has ended (claude-code#62008).
const (
	defaultSessionTTL  = 720 * time.Hour
	defaultMaxSessions = 10_000
	// MostSessions is the largest value of the option max_sessions.
	MostSessions = 1_000_000
)

// openClients takes what there is of the toolkit's clients. Their streams end when the process does, as
// Caddy waits for requests before it cleans up.
func (h *Handler) openClients(ctx caddy.Context, name string) (err error) {
	if h.ids, err = seal.NewSource("sessions", h.SecretFile, session.NewSealer, h.logger); err != nil {
		return err
	}
	h.clientsKey = "clients of " + name
	value, _, err := pool.LoadOrNew(h.clientsKey, func() (caddy.Destructor, error) {
		return toolkit.NewClients(), nil
	})
	if err != nil {
		h.clientsKey = ""
		return err
	}
	h.clients = value.(*toolkit.Clients)
	h.clients.Bound(orDefault(h.MaxSessions, defaultMaxSessions), h.settings.backend.Memory)
	for _, s := range h.Servers {
		if s.program != nil {
			s.program.ShareMemory(h.clients.Messages)
		}
	}
	h.ids.Use(h.clients.Sessions.Secret)
	return exit.Before(ctx, h.clients.Board.End)
}

// checkSessions returns an error if sessions cannot be so many, or last so long.
func (h *Handler) checkSessions() error {
	if h.MaxSessions < 0 || h.MaxSessions > MostSessions {
		return fmt.Errorf("max_sessions: %d is not a whole number from 1 to %d", h.MaxSessions, MostSessions)
	}
	return checkDuration("session_ttl", orDefault(time.Duration(h.SessionTTL), defaultSessionTTL), time.Second)
}
