// Package admission remembers whom the upstream, the MCP server, has lately let in. It keeps the
// sessions that the upstream has opened, and the credentials that it has accepted. The record is
// no authority: if the package has forgotten a caller, the next request goes to the upstream,
// which decides.
//
// Results admit callers. The result of initialize or of a list admits a session. The result of a
// list admits a caller without a session. The result of server/discover admits a caller to
// server/discover alone. A refusal revokes the caller's admission until the upstream has answered
// the caller with a list. It also closes the refused kind until the upstream has answered that
// kind.
//
// The package knows nothing of requests and of how they are answered.
package admission

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// DefaultCapacity is how many callers the ledger of a backend remembers.
const DefaultCapacity = 100_000

// maxSessionID is the longest session ID, in bytes, that is remembered.
const maxSessionID = 256

// Ticket orders what a ledger records. It is taken before a request is sent, so
// that its answer cannot undo what has happened meanwhile.
type Ticket uint64

// Ledger remembers callers: sessions by their ID, others by their authorization
// context and revision. All methods may be called from several goroutines at
// once; reading takes no lock.
type Ledger struct {
	clock    atomic.Uint64
	capacity int
	// lost is when the upstream last may have lost its sessions: those admitted
	// before count no more.
	lost atomic.Uint64
	idle idle

	// mu serializes writers.
	mu      sync.Mutex
	callers sync.Map // key → *Caller
	// sessions are the IDs of the sessions of each authorization context.
	sessions map[cache.Partition]map[string]struct{}
	count    int
	crowded  uint64 // callers that had to make room
	// ended has the callers that were ended or refused and are not remembered as
	// a Caller. For all others that are not, answers with tickets up to floor
	// admit nobody.
	ended map[key]refusal
	floor uint64
}

// refusal is what is known of a caller who was ended or refused.
type refusal struct {
	revoked uint64           // answers with tickets up to this one do not admit
	kinds   revision.KindSet // what was refused, and has not been answered since
}

// maxEnded bounds Ledger.ended. It is looked up for answers that were under way
// when their caller was refused, and for callers who are let in to another kind
// than the one that they were refused.
const maxEnded = 1024

type key struct {
	session  string
	context  cache.Partition
	revision revision.Revision
}

// New returns a ledger of at most capacity callers.
func New(capacity int) *Ledger {
	return &Ledger{capacity: max(capacity, 1), ended: make(map[key]refusal)}
}

// Ticket returns a ticket later than all before it.
func (l *Ledger) Ticket() Ticket { return Ticket(l.clock.Add(1)) }

// Session returns what is known of a session, or nil.
func (l *Ledger) Session(id string) *Caller { return l.load(key{session: id}) }

// Context returns what is known of the callers of one authorization context
// that have no session, or nil.
func (l *Ledger) Context(c cache.Partition, r revision.Revision) *Caller {
	return l.load(key{context: c, revision: r})
}

func (l *Ledger) load(k key) *Caller {
	v, ok := l.callers.Load(k)
	if !ok {
		return nil
	}
	return v.(*Caller)
}

// AdmitSession records that the upstream opened that session, or answered it with
// a list, for a request with the credentials of c at revision r; answered is the
// kind of the list, if it was one. It counts until the time given. A session that
// has ended since the ticket was taken stays ended.
func (l *Ledger) AdmitSession(id string, c cache.Partition, r revision.Revision, answered revision.KindSet, t Ticket, until time.Time) {
	if id == "" || len(id) > maxSessionID || r == revision.Unknown {
		return
	}
	l.admit(key{session: id}, c, r, answered, t, until)
}

// OpenSession is AdmitSession for the result of an initialize. The request for that names the
// variant of the session's client, and what the client asks for.
func (l *Ledger) OpenSession(id string, c cache.Partition, r revision.Revision, v cache.Variant, t Ticket, until time.Time) {
	l.AdmitSession(id, c, r, 0, t, until)
	if opened := l.Session(id); opened != nil && opened.Context == c {
		asked := c.Asked()
		opened.variant.Store(&v)
		opened.opened.Store(&asked)
	}
}

// RenewSession records a result of the upstream that is not a list; answered is
// its kind, if it has one. It prolongs the admission of a session, but admits none
// that has been refused or has ended.
func (l *Ledger) RenewSession(id string, c cache.Partition, answered revision.KindSet, t Ticket, until time.Time) {
	present := l.Session(id)
	if present == nil || present.Context != c || present.until.Load() == 0 {
		return
	}
	l.admit(key{session: id}, c, present.Revision, answered, t, until)
}

// AnswerContext records a result of those kinds that admits nobody, for callers of
// one authorization context without a session: the kinds are not refused to them
// any more.
func (l *Ledger) AnswerContext(c cache.Partition, r revision.Revision, answered revision.KindSet, t Ticket) {
	present := l.Context(c, r)
	if present == nil || present.Refused()&answered == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if present.revoked.Load() < uint64(t) {
		present.refused.And(^uint32(answered))
	}
}

// LoseSessions records that the upstream may have lost its sessions: each has to
// be admitted again.
func (l *Ledger) LoseSessions() { l.lost.Store(l.clock.Add(1)) }

// AdmitContext records that the upstream answered a request without a session,
// with the credentials of c at revision r, with a list; answered is its kind. If
// that is server/discover alone, it admits to that alone.
func (l *Ledger) AdmitContext(c cache.Partition, r revision.Revision, answered revision.KindSet, t Ticket, until time.Time) {
	if r != revision.Unknown {
		l.admit(key{context: c, revision: r}, c, r, answered, t, until)
	}
}

// RememberSession returns what is known of a session, and remembers a new one
// with its credentials and revision. Nobody is admitted by that. It returns nil
// if the ID is too long.
func (l *Ledger) RememberSession(id string, c cache.Partition, r revision.Revision) *Caller {
	if id == "" || len(id) > maxSessionID {
		return nil
	}
	return l.remember(key{session: id}, c, r)
}

// RememberContext is RememberSession for the callers of one authorization
// context that have no session.
func (l *Ledger) RememberContext(c cache.Partition, r revision.Revision) *Caller {
	return l.remember(key{context: c, revision: r}, c, r)
}

func (l *Ledger) remember(k key, c cache.Partition, r revision.Revision) *Caller {
	if present := l.load(k); present != nil || r == revision.Unknown {
		return present
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if present := l.load(k); present != nil {
		return present
	}
	return l.add(k, c, r)
}

// add remembers k, who is not remembered yet. The caller holds l.mu.
func (l *Ledger) add(k key, c cache.Partition, r revision.Revision) *Caller {
	added := l.newCaller(k, c, r)
	added.restore(l.refusalOf(k, nil))
	l.makeRoom()
	delete(l.ended, k)
	l.callers.Store(k, added)
	l.index(k, c)
	return added
}

func (l *Ledger) newCaller(k key, c cache.Partition, r revision.Revision) *Caller {
	caller := &Caller{Context: c, Revision: r}
	if k.session != "" {
		caller.ledger = l
		caller.heard.Store(time.Now().UnixNano())
	}
	return caller
}

// enough is by how much an admission must end later than the one before to be
// worth a lock: the admission of a caller who asks all the time is recorded once
// in that time. It is far less than admissions last.
const enough = 10 * time.Millisecond

func (l *Ledger) admit(k key, c cache.Partition, r revision.Revision, answered revision.KindSet, t Ticket, until time.Time) {
	if present := l.load(k); present != nil && present.Context == c && present.Revision == r &&
		present.admittedAbout(answered, until) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	present := l.load(k)
	refused := l.refusalOf(k, present)
	switch {
	case refused.revoked >= uint64(t):
		return
	case present == nil:
		present = l.add(k, c, r)
	case present.Context != c || present.Revision != r:
		replacement := l.newCaller(k, c, r)
		replacement.restore(refused)
		l.unindex(k, present.Context)
		replacement.inherit(present)
		l.callers.Store(k, replacement)
		present = replacement
	}
	present.let.Store(max(present.let.Load(), uint64(t)))
	present.admittedTo(answered).Store(until.UnixNano())
	present.refused.And(^uint32(answered))
	l.index(k, c) // a refusal has removed it
}

// refusalOf returns what is known of refusals of k; present is what is remembered
// of k, or nil. The caller holds l.mu.
func (l *Ledger) refusalOf(k key, present *Caller) refusal {
	if present != nil {
		return present.refusal()
	}
	known := l.ended[k]
	known.revoked = max(known.revoked, l.floor)
	return known
}

// EndSession records that a session is or may be over: the upstream said so, or
// its client has asked for it. Undo takes that back, if the upstream turns out to have
// meant something else, and nothing was recorded of the session since.
func (l *Ledger) EndSession(id string) (undo func()) {
	l.mu.Lock()
	caller := l.Session(id)
	if caller == nil {
		l.mu.Unlock()
		l.RefuseSession(id, 0)
		return func() {}
	}
	defer l.mu.Unlock()
	until, discover, barred, now := caller.until.Load(), caller.discover.Load(), caller.revoked.Load(), l.clock.Add(1)
	caller.revoke(now, 0, false)
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if caller.revoked.CompareAndSwap(now, barred) {
			caller.until.CompareAndSwap(0, until)
			caller.discover.CompareAndSwap(0, discover)
		}
	}
}

// RefuseSession records that the upstream refused lists of those kinds to a
// session.
func (l *Ledger) RefuseSession(id string, kinds revision.KindSet) {
	if id != "" && len(id) <= maxSessionID {
		l.revoke(key{session: id}, kinds, false)
	}
}

// RefuseContext records that the upstream refused lists of those kinds to the
// callers of one authorization context that have no session. A refusal of
// server/discover alone closes server/discover to them, and nothing else.
func (l *Ledger) RefuseContext(c cache.Partition, r revision.Revision, kinds revision.KindSet) {
	if r != revision.Unknown {
		l.revoke(key{context: c, revision: r}, kinds, kinds == onlyDiscover)
	}
}

// RefuseKind records that the upstream failed to answer with a list of one kind.
// It closes lists of that kind to the session, or if there is none to the authorization context.
// It closes no other kinds.
func (l *Ledger) RefuseKind(id string, c cache.Partition, r revision.Revision, k revision.Kind) {
	switch {
	case id != "" && len(id) <= maxSessionID:
		l.revoke(key{session: id}, revision.SetOf(k), true)
	case id == "" && r != revision.Unknown:
		l.revoke(key{context: c, revision: r}, revision.SetOf(k), true)
	}
}

// Revoke records that the upstream refused the credentials of c, whatever they
// were used for.
func (l *Ledger) Revoke(c cache.Partition) {
	for _, r := range revision.All() {
		l.revoke(key{context: c, revision: r}, 0, false)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for id := range l.sessions[c] {
		if caller := l.load(key{session: id}); caller != nil && caller.Context == c {
			caller.revoke(l.clock.Add(1), 0, false)
		}
	}
	delete(l.sessions, c)
}

// index remembers that a session uses the credentials of c. The caller holds l.mu.
func (l *Ledger) index(k key, c cache.Partition) {
	if k.session == "" {
		return
	}
	if l.sessions == nil {
		l.sessions = make(map[cache.Partition]map[string]struct{})
	}
	if l.sessions[c] == nil {
		l.sessions[c] = make(map[string]struct{})
	}
	l.sessions[c][k.session] = struct{}{}
}

// unindex forgets a session under the credentials that it used. The caller holds
// l.mu.
func (l *Ledger) unindex(k key, c cache.Partition) {
	if k.session == "" {
		return
	}
	delete(l.sessions[c], k.session)
	if len(l.sessions[c]) == 0 {
		delete(l.sessions, c)
	}
}

// revoke ends a caller's admission after the upstream has refused lists of those kinds. With alone
// it closes these kinds only, otherwise all lists.
func (l *Ledger) revoke(k key, kinds revision.KindSet, alone bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock.Add(1)
	if c := l.load(k); c != nil {
		c.revoke(now, kinds, alone)
		return
	}
	l.noteRefusal(k, refusal{now, kinds | l.ended[k].kinds})
}

// noteRefusal records the refusals of a caller that the ledger does not remember. The caller of
// noteRefusal holds l.mu.
func (l *Ledger) noteRefusal(k key, known refusal) {
	if _, present := l.ended[k]; !present && len(l.ended) >= maxEnded {
		clear(l.ended)
		l.floor = l.clock.Load()
	}
	l.ended[k] = known
}

// makeRoom counts one caller more, and forgets one if the ledger is full. The
// order in which a sync.Map is walked follows a seeded hash, so who is forgotten
// is random. The caller holds l.mu.
func (l *Ledger) makeRoom() {
	if l.count < l.capacity {
		l.count++
		return
	}
	l.callers.Range(func(k, v any) bool {
		l.callers.Delete(k)
		l.unindex(k.(key), v.(*Caller).Context)
		l.crowded++
		if known := v.(*Caller).refusal(); known.revoked > l.floor || known.kinds != 0 {
			l.noteRefusal(k.(key), known)
		}
		return false
	})
}

// Purge forgets everybody.
func (l *Ledger) Purge() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.callers.Clear()
	clear(l.ended)
	clear(l.sessions)
	l.count, l.floor = 0, l.clock.Add(1)
}

// Count returns how many callers are remembered, and how many had to make room.
func (l *Ledger) Count() (remembered int, forgotten uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count, l.crowded
}
