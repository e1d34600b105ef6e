package fleet

import (
	"crypto/rand"
	"os"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/flight"
)

// Status is the membership of an instance among those that share a store.
type Status struct {
	Name string
	// Together is true while the membership lasts. Otherwise the instance is alone.
	Together bool
	// Since is when that began; zero if there never was a membership.
	Since time.Time
	// Members are the names of all members, its own included, in order; nil if it is alone. They
	// are not to be changed.
	Members []string
	// Strangers are the names of the members whose secrets are others than this one's, as far as
	// they have said that.
	Strangers []string
}

// longestHost is how much of a host's name is in that of an instance, in bytes, chanceInName how many
// characters are there by chance.
const longestHost, chanceInName = 40, 10

// newName returns a name that no other instance has, by which people know the host: what letters,
// digits, dots and dashes there are in its name, and 50 random bits.
func newName(host string) string {
	clean := strings.Map(inName, host)
	clean = strings.Trim(clean[:min(len(clean), longestHost)], ".-")
	if clean == "" {
		clean = "caddy"
	}
	return clean + "-" + strings.ToLower(rand.Text()[:chanceInName])
}

// inName returns a character that may be in a name, and -1 for any other.
func inName(r rune) rune {
	if r == '.' || r == '-' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
		return r
	}
	return -1
}

// hostName returns that of this host, or "" if it has none.
func hostName() string {
	host, _ := os.Hostname()
	return host
}

// Name returns the name of this instance, which no other has.
func (m *Member) Name() string { return m.name }

// Status returns the membership of this instance. It waits for nothing.
func (m *Member) Status() Status {
	is := &m.membership
	is.mu.Lock()
	defer is.mu.Unlock()
	if !m.Together() {
		return Status{Name: m.name, Since: is.until}
	}
	return Status{Name: m.name, Together: true, Since: is.since, Members: is.members, Strangers: m.strangers(is.members)}
}

// meet notes who is a member.
func (m *Member) meet(members []string) {
	members = m.bounded(members)
	is := &m.membership
	is.mu.Lock()
	defer is.mu.Unlock()
	if len(without(members, is.members)) > 0 {
		flight.Signal(m.known.met)
	}
	m.forget(without(is.members, members))
	is.members = members
}

// without returns those names that are not among others, which are in order.
func without(names, others []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		_, is := slices.BinarySearch(others, name)
		return is
	})
}

// logged is what the log says of the members.
type logged struct {
	since   time.Time // when the membership has begun; zero: that there is none
	members []string
}

// logMembers logs that a membership has begun, or that there are other members than before. After a
// failure that waits until a membership lasts: there may be many that do not.
func (m *Member) logMembers() {
	var is logged
	is.since, is.members = m.membership.last()
	m.mu.Lock()
	defer m.mu.Unlock()
	fields := []zap.Field{zap.String("name", m.name), zap.Strings("members", firstNames(is.members))}
	switch {
	case m.failed != nil:
		return
	case !is.since.Equal(m.logged.since):
		m.logger.Info("together with the other instances", fields...)
	case !slices.Equal(is.members, m.logged.members):
		m.logger.Info("the instances have changed", fields...)
	}
	m.logged = is
}
