package promises

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/redistest"
)

// awaitMembers waits until an instance says that those are together, in its status and its metrics; of
// none, that it is by itself.
func (i *instance) awaitMembers(names ...string) {
	i.t.Helper()
	slices.Sort(names)
	up := min(len(names), 1)
	fixture.Await(i.t, fmt.Sprintf("%q to be together", names), func() bool {
		s, metrics := i.status(), string(i.ask("/metrics"))
		return s != nil && slices.Equal(s.Fleet.Members, names) && (s.Fleet.State == "together") == (up == 1) &&
			strings.Contains(metrics, fmt.Sprintf("\ncaddy_mcp_cache_fleet_up{handler=\"mcp_cache\"} %d\n", up)) &&
			strings.Contains(metrics, fmt.Sprintf("\ncaddy_mcp_cache_fleet_members{handler=\"mcp_cache\"} %d\n", len(names)))
	})
}

// awaitLines waits until so many lines of the log say that. There are more if an instance was held up.
func (i *instance) awaitLines(text string, want int) {
	i.t.Helper()
	fixture.Await(i.t, fmt.Sprintf("%d lines that say %q", want, text), func() bool {
		return strings.Count(strings.Join(i.Lines(), "\n"), text) >= want
	})
}

// TestFleetIsSeen has an instance be joined by another, which ends, and Redis go away: the status, the
// metrics and the log say so.
func TestFleetIsSeen(t *testing.T) {
	const begun, changed = "together with the other instances", "the instances have changed"
	redis, w := redistest.Start(t), caddytest.NewUpstream(t)
	w.Host.Start()
	one := startInstance(t, w.Host.URL, "store redis "+redis.URL)
	one.awaitFleet("together")
	first := one.status().Fleet.Name
	one.awaitMembers(first)
	other := startInstance(t, w.Host.URL, "store redis "+redis.URL)
	other.awaitFleet("together")
	second := other.status().Fleet.Name
	one.awaitMembers(first, second)
	other.awaitMembers(first, second)
	one.awaitLines(begun, 1)
	one.awaitLines(changed, 1)
	other.awaitLines(begun, 1)

	other.Stop(t)
	one.awaitMembers(first)
	one.awaitLines(changed, 2)
	redis.Kill()
	one.awaitFleet("away")
	one.awaitMembers()
	redis.Start()
	one.awaitMembers(first)
	one.awaitLines(begun, 2)
}

// TestFleetOfOtherSecrets gives two Caddys other secrets: the status and the log of each name the other
// one, in front of one server and of several, whose sessions the other does not know. Once both have the
// same secret, nothing is said of it.
func TestFleetOfOtherSecrets(t *testing.T) {
	redis, w := redistest.Start(t), caddytest.NewUpstream(t)
	w.Host.Start()
	for name, several := range map[string]bool{"one server": false, "several": true} {
		t.Run(name, func(t *testing.T) {
			var all []*instance
			at := "mcp_cache"
			for _, secret := range []string{"11", "22"} {
				file := filepath.Join(t.TempDir(), "secret")
				if err := os.WriteFile(file, []byte(strings.Repeat(secret, 32)), 0o600); err != nil {
					t.Fatal(err)
				}
				options := []string{"store redis " + redis.URL, "secret_file " + file}
				if several {
					at = "mcp_cache/one"
					all = append(all, startInstance(t, "", append(options, caddytest.Member{Name: "one", URL: w.Host.URL}.Block())...))
				} else {
					all = append(all, startInstance(t, w.Host.URL, options...))
				}
			}
			for n, i := range all {
				fixture.Await(t, "the other's secrets in the status", func() bool {
					is, other := i.statusOf(at), all[1-n].statusOf(at)
					return is != nil && other != nil && slices.Equal(is.Fleet.Others, []string{other.Fleet.Name}) &&
						slices.ContainsFunc(is.Warnings, func(text string) bool { return strings.Contains(text, "give all the same secret_file") })
				})
				i.awaitLines("another instance has other secrets", 1)
			}
		})
	}
}
