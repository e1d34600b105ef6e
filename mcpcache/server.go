package mcpcache

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// prefix returns what is put before names.
func (s *Server) prefix() string {
	if s.Prefix != nil {
		return *s.Prefix
	}
	return s.Name + "__"
}

var (
	validServerName = regexp.MustCompile(`^[a-z0-9-]{1,32}$`)
	validPrefix     = regexp.MustCompile(`^[A-Za-z0-9_./-]{1,32}$`)
)

// words are those that have another meaning in the place of a server's name, in the admin
// API and in commands.
var words = append(revision.KindNames(), "refresh", "restart", "purge")

// CheckServerName returns an error if a server of a toolkit cannot be called that.
func CheckServerName(name string) error {
	switch {
	case !validServerName.MatchString(name):
		return fmt.Errorf("name: %q is not 1 to 32 of a-z, 0-9 and -", name)
	case slices.Contains(words, name):
		return fmt.Errorf("name: %q has another meaning; no server can be called %s", name, strings.Join(words, ", "))
	}
	return nil
}

// CheckPrefix returns an error if the names of a server's items cannot begin with that.
func CheckPrefix(prefix string) error {
	if prefix != "" && !validPrefix.MatchString(prefix) {
		return fmt.Errorf("prefix: %q is not up to 32 of A-Z, a-z, 0-9, _, ., / and -", prefix)
	}
	return nil
}

// The values of the option session_lost.
const (
	Reopen = "reopen"
	End    = "end"
)

// CheckSessionLost returns an error if nothing of the kind can become of a session.
func CheckSessionLost(what string) error {
	if what != "" && what != Reopen && what != End {
		return fmt.Errorf("session_lost: %q is not one of %s, %s", what, Reopen, End)
	}
	return nil
}

// CheckServers returns an error if the servers of a toolkit cannot be told apart.
func CheckServers(servers []*Server) error {
	for i, s := range servers {
		if s == nil {
			return errors.New("one is null")
		}
		if err := CheckServerName(s.Name); err != nil {
			return err
		}
		if err := CheckPrefix(s.prefix()); err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
		if err := CheckSessionLost(s.SessionLost); err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
		if err := s.checkCredentials(); err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
		for _, other := range servers[:i] {
			if other.Name == s.Name {
				return fmt.Errorf("two are called %q", s.Name)
			}
			if a, b := other.prefix(), s.prefix(); a != "" && b != "" && (strings.HasPrefix(a, b) || strings.HasPrefix(b, a)) {
				return fmt.Errorf("the prefix %q of %s and %q of %s: none may begin with the other, or a name could be of both; give one of them another prefix",
					a, other.Name, b, s.Name)
			}
		}
	}
	return nil
}

// The least and the largest value of the option name_limit, in bytes, and its default. The
// largest is that of MCP itself (2025-11-25 and later, "Tools", "Tool Names").
const (
	LeastNameLimit   = 16
	MostNameLimit    = 128
	defaultNameLimit = 48
)

// leastOfName is what a prefix has to leave of a shortened name, in bytes.
const leastOfName = 8

// CheckNameLimit returns an error if names cannot be shortened to that, 0 being the default.
func CheckNameLimit(limit int, servers []*Server) error {
	limit = cmp.Or(limit, defaultNameLimit)
	if limit < LeastNameLimit || limit > MostNameLimit {
		return fmt.Errorf("name_limit: %d is not from %d to %d", limit, LeastNameLimit, MostNameLimit)
	}
	for _, s := range servers {
		if len(s.prefix()) > limit-leastOfName {
			return fmt.Errorf("name_limit: %d leaves too little room behind the prefix %q of %s; give it a shorter prefix, or set name_limit to %d or more",
				limit, s.prefix(), s.Name, len(s.prefix())+leastOfName)
		}
	}
	return nil
}

// defaultSessionTTL is that of the option session_ttl: some clients do not open another
// session when theirs has ended (claude-code#62008).
const (
	defaultSessionTTL  = 720 * time.Hour
	defaultMaxSessions = 10_000
	// MostSessions is the largest value of the option max_sessions.
	MostSessions = 1_000_000
)

// checkSessions returns an error if sessions cannot be so many, or last so long.
func (o *ToolkitOptions) checkSessions() error {
	if o.MaxSessions < 0 || o.MaxSessions > MostSessions {
		return fmt.Errorf("max_sessions: %d is not a whole number from 1 to %d", o.MaxSessions, MostSessions)
	}
	return checkDuration("session_ttl", cmp.Or(time.Duration(o.SessionTTL), defaultSessionTTL), time.Second)
}
