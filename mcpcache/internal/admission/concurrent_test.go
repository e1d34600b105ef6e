package admission

import (
	"fmt"
	"sync"
	"testing"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// A session that ends for good while its answers come in from everywhere must
// be over when all is done, and nothing may be counted wrong.
func TestConcurrentUse(t *testing.T) {
	const sessions, rounds, capacity = 40, 50, 30
	m := New(capacity)
	for round := range rounds {
		var all sync.WaitGroup
		for n := range sessions {
			id := fmt.Sprint(round, n)
			tickets := []Ticket{m.Ticket(), m.Ticket()}
			for _, ticket := range tickets {
				all.Go(func() {
					m.AdmitSession(id, alice, legacy, 0, ticket, later)
					if c := m.Session(id); c != nil {
						c.SeeNotice(revision.Tools, NoticeSeen{})
						c.Admitted(revision.Tools, now)
					}
				})
			}
			all.Go(func() { m.EndSession(id) })
			all.Go(func() {
				m.AdmitContext(bob, modern, 0, m.Ticket(), later)
				m.Revoke(bob)
			})
		}
		all.Wait()
		for n := range sessions {
			if c := m.Session(fmt.Sprint(round, n)); c != nil && (c.Alive() || c.Admitted(revision.Tools, now)) {
				t.Fatalf("session %d of round %d is alive after its end", n, round)
			}
		}
		if admitted(m.Context(bob, modern)) {
			t.Fatal("bob is admitted after the last refusal")
		}
		remembered := 0
		m.callers.Range(func(any, any) bool { remembered++; return true })
		if got, _ := m.Count(); got != remembered || got > capacity {
			t.Fatalf("counts %d callers of %d, has %d", got, capacity, remembered)
		}
	}
}

func BenchmarkAdmitted(b *testing.B) {
	m := New(DefaultCapacity)
	for n := range 10_000 {
		m.AdmitSession(fmt.Sprint(n), alice, legacy, 0, m.Ticket(), later)
	}
	b.ReportAllocs()
	for b.Loop() {
		if !admitted(m.Session("5000")) {
			b.Fatal("not admitted")
		}
	}
}

// BenchmarkAdmit admits one caller again and again, as its calls do.
func BenchmarkAdmit(b *testing.B) {
	m := New(DefaultCapacity)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			m.AdmitSession("session", alice, legacy, 0, m.Ticket(), later)
		}
	})
}
