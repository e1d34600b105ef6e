package integration

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/redistest"
)

// awaitMembers waits until an instance says that those are together, in its status and its metrics; of
// none, that it is by itself.
func (i *instance) awaitMembers(names ...string) {
	i.t.Helper()
	slices.Sort(names)
	up := min(len(names), 1)
	await(i.t, fmt.Sprintf("%q to be together", names), func() bool {
		s, metrics := i.status(), string(i.ask("/metrics"))
		return s != nil && slices.Equal(s.Fleet.Members, names) && (s.Fleet.State == "together") == (up == 1) &&
			strings.Contains(metrics, fmt.Sprintf("\ncaddy_mcp_cache_fleet_up{handler=\"mcp_cache\"} %d\n", up)) &&
			strings.Contains(metrics, fmt.Sprintf("\ncaddy_mcp_cache_fleet_members{handler=\"mcp_cache\"} %d\n", len(names)))
	})
}

// awaitLines waits until so many lines of the log say that. There are more if an instance was held up.
func (i *instance) awaitLines(text string, want int) {
	i.t.Helper()
	await(i.t, fmt.Sprintf("%d lines that say %q", want, text), func() bool {
		return strings.Count(strings.Join(i.lines(), "\n"), text) >= want
	})
}

// TestFleetIsSeen has an instance be joined by another, which ends, and Redis go away: the status, the
// metrics and the log say so.
func TestFleetIsSeen(t *testing.T) {
	const begun, changed = "together with the other instances", "the instances have changed"
	redis, w := redistest.Start(t), newUpstream(t)
	w.host.Start()
	one := startInstance(t, w.host.URL, "store redis "+redis.URL)
	one.awaitFleet("together")
	first := one.status().Fleet.Name
	one.awaitMembers(first)
	other := startInstance(t, w.host.URL, "store redis "+redis.URL)
	other.awaitFleet("together")
	second := other.status().Fleet.Name
	one.awaitMembers(first, second)
	other.awaitMembers(first, second)
	one.awaitLines(begun, 1)
	one.awaitLines(changed, 1)
	other.awaitLines(begun, 1)

	if err := syscall.Kill(other.pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	one.awaitMembers(first)
	one.awaitLines(changed, 2)
	redis.Kill()
	one.awaitFleet("away")
	one.awaitMembers()
	redis.Start()
	one.awaitMembers(first)
	one.awaitLines(begun, 2)
}
