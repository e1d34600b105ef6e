// Package admission remembers whom the upstream has let in lately: sessions it
// has opened, credentials it has accepted. It is a memo, never an authority:
// what it has forgotten costs one more request to the upstream, which decides.
//
// A caller is let in by a result: a session by that of its initialize or of a
// list of its own, others by that of a list; to server/discover by its result
// too, and by that to nothing else. A refusal bars the caller until the upstream
// has answered it a list, and from the kind that was refused until it has
// answered that very kind.
package admission

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// DefaultCapacity is how many callers a memo remembers.
const DefaultCapacity = 100_000

// MaxSessionID is the longest session ID, in bytes, that is remembered.
const MaxSessionID = 256

// Ticket orders what a memo is told. It is taken before a request is sent, so
// that an answer that was under way cannot undo what happened since.
type Ticket uint64

// Ledger remembers callers: sessions by their ID, others by their authorization
// context and revision. All methods may be called from several goroutines at
// once; reading takes no lock.
type Ledger struct {
	clock    atomic.Uint64
	capacity int
	// lost is the ticket up to which sessions may be unknown to the upstream,
	// which has lost some since.
	lost atomic.Uint64

	// mu serializes writers.
	mu      sync.Mutex
	callers sync.Map // key → *Caller
	// sessions are those that use the same credentials.
	sessions map[cache.Partition]map[string]struct{}
	count    int
	crowded  uint64 // callers that had to make room
	// ended has the callers that were ended or refused and are not remembered.
	// floor is a ticket up to which admissions of everybody else who is not
	// remembered do not count.
	ended map[key]refusal
	floor uint64
}

// refusal is what is known of a caller who was ended or refused.
type refusal struct {
	barred uint64           // the ticket up to which admissions do not count
	kinds  revision.KindSet // what was refused, and has not been answered since
}

// maxEnded bounds how many callers that are not remembered are known to have
// ended. Answers that are under way meanwhile make use of it, and callers who are
// let in to something else than what they were refused.
const maxEnded = 1024

type key struct {
	session  string
	context  cache.Partition
	revision revision.Revision
}

// New returns a memo of at most capacity callers.
func New(capacity int) *Ledger {
	return &Ledger{capacity: max(capacity, 1), ended: make(map[key]refusal)}
}

// Ticket returns the present moment.
func (m *Ledger) Ticket() Ticket { return Ticket(m.clock.Add(1)) }

// Session returns what is known of a session, or nil.
func (m *Ledger) Session(id string) *Caller { return m.load(key{session: id}) }

// Context returns what is known of the callers of one authorization context
// that have no session, or nil.
func (m *Ledger) Context(c cache.Partition, r revision.Revision) *Caller {
	return m.load(key{context: c, revision: r})
}

func (m *Ledger) load(k key) *Caller {
	v, ok := m.callers.Load(k)
	if !ok {
		return nil
	}
	return v.(*Caller)
}

// AdmitSession records that the upstream opened that session or answered it a
// list, for a request with the credentials of c, at revision r; answered says of
// which kind, if it was a list. It counts until the time given. A session that has
// ended since the ticket was taken stays ended.
func (m *Ledger) AdmitSession(id string, c cache.Partition, r revision.Revision, answered revision.KindSet, t Ticket, until time.Time) {
	if id == "" || len(id) > MaxSessionID || r == revision.Unknown {
		return
	}
	m.admit(key{session: id}, c, r, answered, t, until)
}

// OpenSession is AdmitSession for the result of an initialize, which says of
// what variant the session's client is.
func (m *Ledger) OpenSession(id string, c cache.Partition, r revision.Revision, v cache.Variant, t Ticket, until time.Time) {
	m.AdmitSession(id, c, r, 0, t, until)
	if opened := m.Session(id); opened != nil && opened.Context == c {
		opened.variant.Store(&v)
	}
}

// RenewSession records that the upstream answered something else than a list
// with a result; answered says of which kind, if it is a kind. That lets nobody
// in, but whoever has been let in stays so: a session that has been refused, or
// has ended, is none of those.
func (m *Ledger) RenewSession(id string, c cache.Partition, answered revision.KindSet, t Ticket, until time.Time) {
	present := m.Session(id)
	if present == nil || present.Context != c || present.until.Load() == 0 {
		return
	}
	m.admit(key{session: id}, c, present.Revision, answered, t, until)
}

// AnswerContext records that the upstream answered callers of one authorization
// context without a session something of those kinds that lets nobody in: it is
// not refused to them any more.
func (m *Ledger) AnswerContext(c cache.Partition, r revision.Revision, answered revision.KindSet, t Ticket) {
	present := m.Context(c, r)
	if present == nil || present.Refused()&answered == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if present.barred.Load() < uint64(t) {
		present.refused.And(^uint32(answered))
	}
}

// LoseSessions records that the upstream may have lost the sessions that it
// had: each has to be let in anew.
func (m *Ledger) LoseSessions() { m.lost.Store(m.clock.Add(1)) }

// AdmitContext records that the upstream answered a list without a session that
// was asked for with the credentials of c at revision r; answered says of which
// kind. Of server/discover alone, it lets in to that alone.
func (m *Ledger) AdmitContext(c cache.Partition, r revision.Revision, answered revision.KindSet, t Ticket, until time.Time) {
	if r != revision.Unknown {
		m.admit(key{context: c, revision: r}, c, r, answered, t, until)
	}
}

// RememberSession returns what is known of a session of at least that much:
// its credentials and revision. Nobody is admitted by that. It returns nil if
// the ID is too long.
func (m *Ledger) RememberSession(id string, c cache.Partition, r revision.Revision) *Caller {
	if id == "" || len(id) > MaxSessionID {
		return nil
	}
	return m.remember(key{session: id}, c, r)
}

// RememberContext is RememberSession for the callers of one authorization
// context that have no session.
func (m *Ledger) RememberContext(c cache.Partition, r revision.Revision) *Caller {
	return m.remember(key{context: c, revision: r}, c, r)
}

func (m *Ledger) remember(k key, c cache.Partition, r revision.Revision) *Caller {
	if present := m.load(k); present != nil || r == revision.Unknown {
		return present
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if present := m.load(k); present != nil {
		return present
	}
	return m.add(k, c, r)
}

// add remembers k, who is not remembered. The caller holds m.mu.
func (m *Ledger) add(k key, c cache.Partition, r revision.Revision) *Caller {
	added := m.newCaller(k, c, r)
	added.restore(m.refusalOf(k, nil))
	m.makeRoom()
	delete(m.ended, k)
	m.callers.Store(k, added)
	m.index(k, c)
	return added
}

func (m *Ledger) newCaller(k key, c cache.Partition, r revision.Revision) *Caller {
	caller := &Caller{Context: c, Revision: r}
	if k.session != "" {
		caller.lost = &m.lost
	}
	return caller
}

// enough is by how much an admission must end later than the one before to be
// worth a lock: a caller who asks all the time is admitted once in that time.
// It is far less than anybody lets an admission last.
const enough = 10 * time.Millisecond

func (m *Ledger) admit(k key, c cache.Partition, r revision.Revision, answered revision.KindSet, t Ticket, until time.Time) {
	if present := m.load(k); present != nil && present.Context == c && present.Revision == r &&
		present.admittedAbout(answered, until) {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	present := m.load(k)
	refused := m.refusalOf(k, present)
	switch {
	case refused.barred >= uint64(t):
		return
	case present == nil:
		present = m.add(k, c, r)
	case present.Context != c || present.Revision != r:
		replacement := m.newCaller(k, c, r)
		replacement.restore(refused)
		m.unindex(k, present.Context)
		replacement.inherit(present)
		m.callers.Store(k, replacement)
		present = replacement
	}
	present.let.Store(max(present.let.Load(), uint64(t)))
	present.admittedTo(answered).Store(until.UnixNano())
	present.refused.And(^uint32(answered))
	m.index(k, c) // a refusal has removed it
}

// refusalOf returns what is known of refusals of k, of whom present is
// remembered.
func (m *Ledger) refusalOf(k key, present *Caller) refusal {
	if present != nil {
		return present.refusal()
	}
	known := m.ended[k]
	known.barred = max(known.barred, m.floor)
	return known
}

// EndSession records that the session is over, because the upstream said so or
// its client has asked for it, or that it may be.
func (m *Ledger) EndSession(id string) { m.RefuseSession(id, 0) }

// RefuseSession records that the upstream refused lists of those kinds to a
// session.
func (m *Ledger) RefuseSession(id string, kinds revision.KindSet) {
	if id != "" && len(id) <= MaxSessionID {
		m.bar(key{session: id}, kinds, false)
	}
}

// RefuseContext records that the upstream refused lists of those kinds to the
// callers of one authorization context that have no session. If it was
// server/discover alone, they are barred from that alone.
func (m *Ledger) RefuseContext(c cache.Partition, r revision.Revision, kinds revision.KindSet) {
	if r != revision.Unknown {
		m.bar(key{context: c, revision: r}, kinds, kinds == onlyDiscover)
	}
}

// RefuseKind records that the upstream failed to answer a list of one kind: that
// session, or if there is none that authorization context, is barred from lists
// of it, and from no others.
func (m *Ledger) RefuseKind(id string, c cache.Partition, r revision.Revision, k revision.Kind) {
	switch {
	case id != "" && len(id) <= MaxSessionID:
		m.bar(key{session: id}, revision.SetOf(k), true)
	case id == "" && r != revision.Unknown:
		m.bar(key{context: c, revision: r}, revision.SetOf(k), true)
	}
}

// Revoke records that the upstream refused the credentials of c, whatever they
// were used for.
func (m *Ledger) Revoke(c cache.Partition) {
	for _, r := range revision.All() {
		m.bar(key{context: c, revision: r}, 0, false)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for id := range m.sessions[c] {
		if caller := m.load(key{session: id}); caller != nil && caller.Context == c {
			caller.bar(m.clock.Add(1), 0, false)
		}
	}
	delete(m.sessions, c)
}

// index remembers that a session uses the credentials of c.
func (m *Ledger) index(k key, c cache.Partition) {
	if k.session == "" {
		return
	}
	if m.sessions == nil {
		m.sessions = make(map[cache.Partition]map[string]struct{})
	}
	if m.sessions[c] == nil {
		m.sessions[c] = make(map[string]struct{})
	}
	m.sessions[c][k.session] = struct{}{}
}

// unindex forgets a session under the credentials that it used.
func (m *Ledger) unindex(k key, c cache.Partition) {
	if k.session == "" {
		return
	}
	delete(m.sessions[c], k.session)
	if len(m.sessions[c]) == 0 {
		delete(m.sessions, c)
	}
}

// bar bars a caller, who was refused lists of those kinds, if any: from all
// lists, or from those alone.
func (m *Ledger) bar(k key, kinds revision.KindSet, alone bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock.Add(1)
	if c := m.load(k); c != nil {
		c.bar(now, kinds, alone)
		return
	}
	m.end(k, refusal{now, kinds | m.ended[k].kinds})
}

// end records what is known of refusals of k, who is not remembered.
func (m *Ledger) end(k key, known refusal) {
	if _, present := m.ended[k]; !present && len(m.ended) >= maxEnded {
		clear(m.ended)
		m.floor = m.clock.Load()
	}
	m.ended[k] = known
}

// makeRoom forgets a few callers if the memo is full. The order in which a
// sync.Map is walked follows a seeded hash, so who is forgotten is random.
func (m *Ledger) makeRoom() {
	if m.count < m.capacity {
		m.count++
		return
	}
	m.callers.Range(func(k, v any) bool {
		m.callers.Delete(k)
		m.unindex(k.(key), v.(*Caller).Context)
		m.crowded++
		if known := v.(*Caller).refusal(); known.barred > m.floor || known.kinds != 0 {
			m.end(k.(key), known)
		}
		return false
	})
}

// Purge forgets everybody.
func (m *Ledger) Purge() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.callers.Clear()
	clear(m.ended)
	clear(m.sessions)
	m.count, m.floor = 0, m.clock.Add(1)
}

// Count returns how many callers are remembered, and how many had to make room.
func (m *Ledger) Count() (remembered int, forgotten uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.count, m.crowded
}
