package admission

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

const (
	legacy = revision.V20251125
	modern = revision.V20260728
)

var (
	now   = time.Date(2026, 7, 28, 12, 0, 0, 0, time.UTC)
	later = now.Add(time.Minute)
	alice = cache.ContextOf([16]byte{1}, cache.Asked{})
	bob   = cache.ContextOf([16]byte{2}, cache.Asked{})
)

func admitted(c *Caller) bool { return c != nil && c.Admitted(revision.Tools, now) }

func TestAdmissionCountsUntilItsTime(t *testing.T) {
	m := New(10)
	m.AdmitSession("s", alice, legacy, 0, m.Ticket(), later)
	c := m.Session("s")
	if c == nil || c.Context != alice || c.Revision != legacy {
		t.Fatalf("got %+v", c)
	}
	for at, want := range map[time.Time]bool{now: true, later.Add(-1): true, later: false, later.Add(time.Hour): false} {
		if got := c.Admitted(revision.Tools, at); got != want {
			t.Errorf("at %v: admitted %v, want %v", at, got, want)
		}
	}
	if !c.Alive() {
		t.Error("session is not alive")
	}
	m.AdmitSession("s", alice, legacy, 0, m.Ticket(), later.Add(time.Hour))
	if got := m.Session("s"); got != c || !got.Admitted(revision.Tools, later) {
		t.Error("admitted again, it is another caller or admitted no longer than before")
	}
}

func TestContextsAreApart(t *testing.T) {
	m := New(10)
	m.AdmitContext(alice, modern, 0, m.Ticket(), later)
	for name, c := range map[string]*Caller{
		"another context":  m.Context(bob, modern),
		"another revision": m.Context(alice, legacy),
		"anonymous":        m.Context(cache.Anonymous, modern),
		"a session":        m.Session("s"),
		"the empty one":    m.Session(""),
	} {
		if c != nil {
			t.Errorf("%s is known: %+v", name, c)
		}
	}
	if !admitted(m.Context(alice, modern)) {
		t.Error("the context itself is not admitted")
	}
}

func TestWhoIsNotRemembered(t *testing.T) {
	m := New(10)
	m.AdmitContext(alice, revision.Unknown, 0, m.Ticket(), later)
	m.AdmitSession("s", alice, revision.Unknown, 0, m.Ticket(), later)
	m.AdmitSession("", alice, legacy, 0, m.Ticket(), later)
	m.AdmitSession(strings.Repeat("x", maxSessionID+1), alice, legacy, 0, m.Ticket(), later)
	m.EndSession("")
	m.EndSession(strings.Repeat("x", maxSessionID+1))
	if got, _ := m.Count(); got != 0 || len(m.ended) != 0 {
		t.Errorf("%d callers are remembered, and %d that ended", got, len(m.ended))
	}
	longest := strings.Repeat("x", maxSessionID)
	m.AdmitSession(longest, alice, legacy, 0, m.Ticket(), later)
	if !admitted(m.Session(longest)) {
		t.Error("the longest session ID is not remembered")
	}
}

// ways are the two kinds of callers, with what ends them.
var ways = map[string]struct {
	admit func(m *Ledger, t Ticket)
	end   func(m *Ledger)
	get   func(m *Ledger) *Caller
}{
	"session": {
		func(m *Ledger, t Ticket) { m.AdmitSession("s", alice, legacy, 0, t, later) },
		func(m *Ledger) { m.EndSession("s") },
		func(m *Ledger) *Caller { return m.Session("s") },
	},
	"context": {
		func(m *Ledger, t Ticket) { m.AdmitContext(alice, modern, 0, t, later) },
		func(m *Ledger) { m.Revoke(alice) },
		func(m *Ledger) *Caller { return m.Context(alice, modern) },
	},
}

// An answer that was under way when a caller was ended cannot admit it again,
// whether the ledger knew the caller, did not yet or does no longer.
func TestAnswerUnderWayCannotUndoAnEnd(t *testing.T) {
	for name, way := range ways {
		for state, prepare := range map[string]func(m *Ledger){
			"known":   func(m *Ledger) { way.admit(m, m.Ticket()); way.end(m) },
			"unknown": func(m *Ledger) { way.end(m) },
			"forgotten": func(m *Ledger) {
				way.admit(m, m.Ticket())
				way.end(m)
				m.AdmitSession("other", bob, legacy, 0, m.Ticket(), later) // takes its place
			},
			"purged": func(m *Ledger) { way.admit(m, m.Ticket()); way.end(m); m.Purge() },
			"forgotten even that it ended": func(m *Ledger) {
				way.end(m)
				for n := range maxEnded {
					m.EndSession(fmt.Sprint(n))
				}
			},
		} {
			t.Run(name+" "+state, func(t *testing.T) {
				m := New(1)
				underWay := m.Ticket()
				prepare(m)
				way.admit(m, underWay)
				if c := way.get(m); c != nil && (c.Admitted(revision.Tools, now) || c.Alive()) {
					t.Error("the answer that was under way has admitted it")
				}
				way.admit(m, m.Ticket())
				if c := way.get(m); !admitted(c) || !c.Alive() {
					t.Fatal("a new answer does not admit it")
				}
				way.admit(m, underWay)
				way.end(m)
				if c := way.get(m); c.Admitted(revision.Tools, now) || c.Alive() {
					t.Error("it did not end the second time")
				}
			})
		}
	}
}

func TestRevokeIsForEveryRevision(t *testing.T) {
	m := New(10)
	for _, r := range revision.All() {
		m.AdmitContext(alice, r, 0, m.Ticket(), later)
		m.AdmitContext(bob, r, 0, m.Ticket(), later)
	}
	m.AdmitSession("s", alice, legacy, 0, m.Ticket(), later)
	m.AdmitSession("t", bob, legacy, 0, m.Ticket(), later)
	m.Revoke(alice)
	for _, r := range revision.All() {
		if admitted(m.Context(alice, r)) || !admitted(m.Context(bob, r)) {
			t.Errorf("revision %s: alice admitted %v, bob %v", r, admitted(m.Context(alice, r)), admitted(m.Context(bob, r)))
		}
	}
	if admitted(m.Session("s")) {
		t.Error("a session is still let in whose credentials were refused")
	}
	if !admitted(m.Session("t")) {
		t.Error("a session of other credentials is not let in any more")
	}
}

func TestSessionWithOtherCredentials(t *testing.T) {
	m := New(10)
	m.AdmitSession("s", alice, legacy, 0, m.Ticket(), later)
	before := m.Session("s")
	before.SeeNotice(revision.Tools, NoticeSeen{})
	told := before.NoticeSeen(revision.Tools)
	underWay := m.Ticket()
	m.AdmitSession("s", bob, legacy, 0, m.Ticket(), later)
	after := m.Session("s")
	if after == before || after.Context != bob || before.Context != alice {
		t.Fatalf("got context %v, and %v of the caller from before", after.Context, before.Context)
	}
	if after.NoticeSeen(revision.Tools) != told {
		t.Error("what the session was told is forgotten")
	}
	m.EndSession("s")
	m.AdmitSession("s", alice, revision.V20250618, 0, underWay, later)
	if c := m.Session("s"); c.Alive() || c.Context != bob {
		t.Error("an answer that was under way has brought the session back")
	}
	if got, _ := m.Count(); got != 1 {
		t.Errorf("%d callers are remembered, want 1", got)
	}
}

func TestCapacity(t *testing.T) {
	const capacity = 5
	m := New(capacity)
	for n := range capacity {
		m.AdmitSession(fmt.Sprint(n), alice, legacy, 0, m.Ticket(), later)
	}
	for n := range capacity {
		if !admitted(m.Session(fmt.Sprint(n))) {
			t.Fatalf("caller %d of %d is forgotten", n, capacity)
		}
	}
	m.AdmitSession("0", alice, legacy, 0, m.Ticket(), later) // known already
	if got, forgotten := m.Count(); got != capacity || forgotten != 0 {
		t.Fatalf("%d callers are remembered, %d forgotten", got, forgotten)
	}
	m.AdmitSession("one more", alice, legacy, 0, m.Ticket(), later)
	if !admitted(m.Session("one more")) {
		t.Error("the newest caller is not remembered")
	}
	left := 0
	for n := range capacity {
		if m.Session(fmt.Sprint(n)) != nil {
			left++
		}
	}
	if got, forgotten := m.Count(); left != capacity-1 || got != capacity || forgotten != 1 {
		t.Errorf("%d of the first are left, %d callers remembered, %d forgotten", left, got, forgotten)
	}
	m.Purge()
	if got, _ := m.Count(); got != 0 || m.Session("one more") != nil {
		t.Errorf("purged, %d callers are remembered", got)
	}
}

func TestEndedCallersAreBounded(t *testing.T) {
	m := New(1)
	for n := range maxEnded {
		m.EndSession(fmt.Sprint(n))
	}
	if got := len(m.ended); got != maxEnded {
		t.Errorf("%d ended callers are known, want %d", got, maxEnded)
	}
	m.EndSession("one more")
	if got := len(m.ended); got > maxEnded {
		t.Errorf("%d ended callers are known, want at most %d", got, maxEnded)
	}
}

func TestToldAndSettled(t *testing.T) {
	var c Caller
	c.SeeNotice(revision.Tools, NoticeSeen{})
	first := c.NoticeSeen(revision.Tools)
	if first == nil || first.Differs || c.NoticeSeen(revision.Prompts) != nil {
		t.Fatal("not told of tools, or of prompts too")
	}
	c.Differ(revision.Tools, first)
	c.SeeNotice(revision.Tools, NoticeSeen{})
	second := c.NoticeSeen(revision.Tools)
	if !second.Differs {
		t.Error("a list that differed is an ordinary one after another change")
	}
	c.ResolveNotice(revision.Tools, first)
	if c.NoticeSeen(revision.Tools) != second {
		t.Error("settling the first change has settled the second")
	}
	c.ResolveNotice(revision.Tools, second)
	if c.NoticeSeen(revision.Tools) != nil {
		t.Error("the second change is not settled")
	}
}

// Who is only remembered is not let in.
func TestRememberedIsNotAdmitted(t *testing.T) {
	m := New(2)
	before := m.Ticket()
	m.EndSession("over")
	c := m.RememberContext(alice, legacy)
	if admitted(c) || c.Alive() || m.RememberContext(alice, legacy) != c {
		t.Error("whoever is remembered is let in, or forgotten at once")
	}
	if m.RememberContext(alice, revision.Unknown) != nil || m.RememberSession("", alice, legacy) != nil ||
		m.RememberSession(strings.Repeat("x", maxSessionID+1), alice, legacy) != nil {
		t.Error("what cannot be told apart is remembered")
	}
	c.SeeNotice(revision.Tools, NoticeSeen{})
	m.AdmitContext(alice, legacy, 0, m.Ticket(), later)
	if c = m.Context(alice, legacy); !admitted(c) || c.NoticeSeen(revision.Tools) == nil {
		t.Error("whoever was remembered is not let in, or has forgotten what he was told")
	}
	session := m.RememberSession("over", alice, legacy)
	m.AdmitSession("over", alice, legacy, 0, before, later)
	if admitted(session) {
		t.Error("an answer from before its end has brought a session back")
	}
	m.AdmitSession("over", alice, legacy, 0, m.Ticket(), later)
	m.Revoke(alice)
	if admitted(session) || admitted(m.Context(alice, legacy)) {
		t.Error("a refusal did not reach who was remembered")
	}
	m.RememberSession("one more", alice, legacy)
	if n, _ := m.Count(); n != 2 {
		t.Errorf("%d are remembered, want 2", n)
	}
}

// A later admission counts if it ends enough later, however short admissions
// are; one that ends sooner always counts, and so does one after a refusal.
func TestAdmissionIsExtended(t *testing.T) {
	for name, c := range map[string]struct {
		second time.Duration // against the first
		want   time.Duration
	}{
		"not worth it":   {enough - 1, 0},
		"just worth it":  {enough, enough},
		"a short one":    {100 * time.Millisecond, 100 * time.Millisecond},
		"much later":     {time.Hour, time.Hour},
		"the same":       {0, 0},
		"a moment less":  {-1, -1},
		"much less":      {-time.Minute, -time.Minute},
		"over by itself": {-2 * later.Sub(now), -2 * later.Sub(now)},
	} {
		t.Run(name, func(t *testing.T) {
			m := New(10)
			m.AdmitContext(alice, modern, 0, m.Ticket(), later)
			m.AdmitContext(alice, modern, 0, m.Ticket(), later.Add(c.second))
			end := later.Add(c.want)
			if known := m.Context(alice, modern); !known.Admitted(revision.Tools, end.Add(-1)) || known.Admitted(revision.Tools, end) {
				t.Errorf("admitted until %v, want %v", time.Unix(0, known.until.Load()), end)
			}
		})
	}
	m := New(10)
	m.AdmitContext(alice, modern, 0, m.Ticket(), later)
	m.Revoke(alice)
	if m.AdmitContext(alice, modern, 0, m.Ticket(), later); !admitted(m.Context(alice, modern)) {
		t.Error("not admitted after a refusal that was taken back")
	}
}

// TestDoubtsTogether has a caller give several reasons to doubt a list: what each
// asks for lasts as long as by itself.
func TestDoubtsTogether(t *testing.T) {
	now := time.Now()
	misled, silent := PendingChange{Misled: true}, PendingChange{Silent: true}
	announced := PendingChange{Until: now.Add(time.Second)}
	for name, c := range map[string]struct {
		doubts []PendingChange
		// lasting says that the doubt is there when its time is over, listed that
		// it still is once the upstream has answered a list.
		lasting, listed bool
	}{
		"misled":                 {[]PendingChange{misled}, true, false},
		"silent":                 {[]PendingChange{silent}, true, true},
		"announced":              {[]PendingChange{announced}, false, true},
		"misled, announced":      {[]PendingChange{misled, announced}, true, true},
		"announced, misled":      {[]PendingChange{announced, misled}, true, true},
		"silent, announced":      {[]PendingChange{silent, announced}, true, true},
		"announced, silent":      {[]PendingChange{announced, silent}, true, true},
		"twice announced":        {[]PendingChange{announced, announced}, false, true},
		"silent, misled, silent": {[]PendingChange{silent, misled, silent}, true, true},
	} {
		var caller Caller
		for _, d := range c.doubts {
			caller.NotePending(revision.Tools, &d)
		}
		if caller.Pending(revision.Prompts, now) != nil || caller.Pending(revision.Tools, now.Add(time.Second)) == nil {
			t.Errorf("%s: nothing is doubted, or prompts too", name)
		}
		caller.Listed(revision.Tools, cache.Mark{})
		if got := caller.Pending(revision.Tools, now) != nil; got != c.listed {
			t.Errorf("%s: doubted after a list: %v", name, got)
		}
		if d := caller.Pending(revision.Tools, now); d != nil && d.Misled {
			t.Errorf("%s: misled after a list", name)
		}
		for _, d := range c.doubts {
			caller.NotePending(revision.Tools, &d)
		}
		if got := caller.Pending(revision.Tools, now.Add(time.Second+1)) != nil; got != c.lasting {
			t.Errorf("%s: doubted when the time is over: %v", name, got)
		}
	}
}
