package admission

import (
	"fmt"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

const (
	tools    = revision.KindSet(1 << revision.Tools)
	prompts  = revision.KindSet(1 << revision.Prompts)
	discover = revision.KindSet(1 << revision.Discover)
)

// letInTo returns the kinds to which a caller is let in.
func letInTo(c *Caller) (kinds revision.KindSet) {
	for k := range revision.Kind(revision.NumKinds) {
		if c != nil && c.Admitted(k, now) {
			kinds |= revision.SetOf(k)
		}
	}
	return kinds
}

const everything = revision.KindSet(1<<revision.NumKinds - 1)

// An answer to server/discover lets in to that alone, and its refusal bars from
// that alone.
func TestDiscoverIsNoList(t *testing.T) {
	m := New(10)
	check := func(when string, want revision.KindSet) {
		t.Helper()
		if got := letInTo(m.Context(alice, modern)); got != want {
			t.Errorf("%s: let in to %b, want %b", when, got, want)
		}
	}
	admit := func(kinds revision.KindSet) { m.AdmitContext(alice, modern, kinds, m.Ticket(), later) }
	admit(discover)
	check("discover answered", discover)
	if m.Context(alice, modern).Alive() {
		t.Error("discover alone makes a caller one of lists")
	}
	admit(tools)
	check("tools answered", everything)
	m.RefuseContext(alice, modern, discover)
	check("discover refused", everything&^discover)
	admit(tools)
	check("tools answered again", everything&^discover)
	admit(discover)
	check("discover answered again", everything)
	m.RefuseContext(alice, modern, tools)
	check("tools refused", discover)
	m.Revoke(alice)
	check("credentials refused", 0)
	admit(discover)
	check("discover answered once more", discover)
}

// What was refused stays refused until it is answered itself, whatever else is,
// whether the ledger has known the caller, did not or does no longer.
func TestRefusedKindStaysRefused(t *testing.T) {
	for name, way := range map[string]struct {
		admit  func(m *Ledger, kinds revision.KindSet, t Ticket)
		refuse func(m *Ledger)
		get    func(m *Ledger) *Caller
	}{
		"session": {
			func(m *Ledger, kinds revision.KindSet, t Ticket) { m.AdmitSession("s", alice, legacy, kinds, t, later) },
			func(m *Ledger) { m.RefuseSession("s", tools) },
			func(m *Ledger) *Caller { return m.Session("s") },
		},
		"session, with other credentials now": {
			func(m *Ledger, kinds revision.KindSet, t Ticket) { m.AdmitSession("s", bob, legacy, kinds, t, later) },
			func(m *Ledger) { m.RefuseSession("s", tools) },
			func(m *Ledger) *Caller { return m.Session("s") },
		},
		"context": {
			func(m *Ledger, kinds revision.KindSet, t Ticket) { m.AdmitContext(alice, modern, kinds, t, later) },
			func(m *Ledger) { m.RefuseContext(alice, modern, tools) },
			func(m *Ledger) *Caller { return m.Context(alice, modern) },
		},
	} {
		for state, capacity := range map[string]int{"known": 10, "unknown": 10, "forgotten": 1} {
			t.Run(name+" "+state, func(t *testing.T) {
				m := New(capacity)
				if state != "unknown" {
					m.AdmitSession("s", alice, legacy, 0, m.Ticket(), later)
					way.admit(m, prompts, m.Ticket())
				}
				underWay := m.Ticket()
				way.refuse(m)
				if state == "forgotten" {
					m.AdmitContext(cache.Anonymous, modern, tools, m.Ticket(), later)
				}
				way.admit(m, tools, underWay)
				way.admit(m, prompts, m.Ticket())
				way.admit(m, 0, m.Ticket())
				if got := letInTo(way.get(m)); got != everything&^tools {
					t.Errorf("let in to %b", got)
				}
				way.admit(m, tools, m.Ticket())
				if got := letInTo(way.get(m)); got != everything {
					t.Errorf("answered, let in to %b", got)
				}
			})
		}
	}
}

// A read that is answered lets nobody in, but is not refused any more.
func TestAnswerContext(t *testing.T) {
	const reads = revision.KindSet(1 << revision.Reads)
	m := New(10)
	m.AnswerContext(alice, modern, reads, m.Ticket())
	underWay := m.Ticket()
	m.RefuseContext(alice, modern, reads)
	m.AdmitContext(alice, modern, tools, m.Ticket(), later)
	m.AnswerContext(alice, modern, reads, underWay)
	if got := letInTo(m.Context(alice, modern)); got != everything&^reads {
		t.Errorf("let in to %b", got)
	}
	m.AnswerContext(alice, modern, reads, m.Ticket())
	if got := letInTo(m.Context(alice, modern)); got != everything {
		t.Errorf("answered, let in to %b", got)
	}
	m.Revoke(alice)
	m.AnswerContext(alice, modern, reads, m.Ticket())
	if got := letInTo(m.Context(alice, modern)); got != 0 {
		t.Errorf("a read has let in to %b", got)
	}
}

// Refusals of callers whom nobody knows take no room of those who are let in.
func TestRefusalsAreBounded(t *testing.T) {
	m := New(10)
	m.AdmitContext(alice, modern, tools, m.Ticket(), later.Add(time.Hour))
	for n := range 3 * maxEnded {
		m.RefuseSession(fmt.Sprint(n), tools)
		m.RefuseContext(cache.ContextOf([16]byte{byte(n), byte(n >> 8), 7}, cache.Asked{}), modern, tools)
	}
	if n, forgotten := m.Count(); n != 1 || forgotten != 0 || len(m.ended) > maxEnded {
		t.Errorf("%d are remembered, %d forgotten, %d refused", n, forgotten, len(m.ended))
	}
	if letInTo(m.Context(alice, modern)) != everything {
		t.Error("refusals of others have cost a caller its admission")
	}
}
