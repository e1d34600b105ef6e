package persist

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// wantLease fails unless an instance says that one asks for the tools, and for nothing else; nil: that
// nobody does.
func (m *member) wantLease(when string, holder *member) {
	m.t.Helper()
	var want []Lease
	if holder != nil {
		want = []Lease{{revision.V20260728, revision.Tools, holder.name()}}
	}
	if got := m.Fleet().Leases; !slices.Equal(got, want) {
		m.t.Errorf("%s, leases are %v, want %v", when, got, want)
	}
}

// An instance says who fetches, as far as it knows.
func TestWhoFetches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, members := fleet(t, 2)
		one, other := members[0], members[1]
		one.settled()
		other.settled()
		one.wantLease("at first", nil)
		_, end := one.turn("at first", fetches)
		one.wantLease("while it fetches", one)
		other.wantLease("before its turn", nil)
		other.turn("while another fetches", waits)
		other.wantLease("while another fetches", one)
		time.Sleep(time.Minute)
		one.wantLease("while it fetches slowly", one)
		other.wantLease("long after its turn", nil)
		other.turn("while another fetches slowly", waits)
		one.fetched(asked(t, "new"))
		end()
		one.wantLease("after that", nil)
		other.wantLease("before it knows", one)
		e, _ := other.turn("once there is a list", takes)
		other.wantLease("having taken it", nil)
		other.fetched(e)

		_, end = other.turn("once more", fetches)
		one.fetched(asked(t, "newer"))
		one.turn("while the other fetches", waits)
		one.wantLease("while the other fetches", other)
		other.shared.SetAway(errors.New("paused"))
		time.Sleep(leaseLife)
		_, endOne := one.turn("once the other has died", fetches)
		one.wantLease("once the other has died", one)
		other.shared.SetAway(nil)
		time.Sleep(2 * extendEach)
		other.wantLease("once it has lost its lease", nil)
		end()
		endOne()
		other.turn("after that", fetches)
		other.wantLease("after that", other)
	})
}
