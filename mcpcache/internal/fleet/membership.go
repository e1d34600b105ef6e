package fleet

import (
	"sync"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
)

// membership says for how long this instance receives the changes that the others announce.
type membership struct {
	cache *cache.Cache

	mu    sync.Mutex
	until time.Time // when the membership ends or has ended; zero: it never began
	since time.Time // when it began
	ended bool      // and all is outdated since
	begun bool      // lists may have been fetched
	lapse *time.Timer
	// members are those that the store has told of last, in order. What is there is never changed.
	members []string
}

// begin notes that lists may be fetched from now on.
func (m *membership) begin() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.begun = true
}

// renew extends the membership to one life after since. The instance has received all that was announced
// before since. Who announces something later waits for longer than that.
func (m *membership) renew(since time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended {
		m.since = time.Now()
	}
	if m.until, m.ended = since.Add(life-margin), false; m.lapse == nil {
		m.lapse = time.AfterFunc(time.Until(m.until), m.expire)
	} else {
		m.lapse.Reset(time.Until(m.until))
	}
	m.cache.ReceivesUntil(m.until)
}

// expire outdates everything when the membership has ended. From then on, this instance goes by what it
// finds out itself.
func (m *membership) expire() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended || time.Now().Before(m.until) {
		return
	}
	m.ended = true
	m.cache.Receive(cache.Change{Kinds: everything, Missed: true})
	m.cache.ReceivesUntil(time.Time{})
}

// hasEnded reports whether the membership has ended.
func (m *membership) hasEnded() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ended
}

// missed outdates everything, since the instance may have missed announcements of any change. With told,
// it has missed some, and clients may have been notified of them. Before lists are fetched, missed does
// nothing.
func (m *membership) missed(told bool) {
	m.mu.Lock()
	begun := m.begun
	m.mu.Unlock()
	if begun {
		m.cache.Receive(cache.Change{Kinds: everything, Told: told, Missed: true})
	}
}

// leave ends the membership, and reports whether there was one. Nothing is outdated by that: the
// instance has received all changes up to now.
func (m *membership) leave() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !time.Now().Before(m.until) {
		return false
	}
	m.ended, m.until = true, time.Now()
	m.cache.ReceivesUntil(time.Time{})
	return true
}

// untilAlone returns until when others may be members, if the store is away for all: for a life
// after this instance has ceased to be one.
func (m *membership) untilAlone() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.until.Add(life)
}

// last returns since when this instance is a member, and who the members are.
func (m *membership) last() (since time.Time, members []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.since, m.members
}
