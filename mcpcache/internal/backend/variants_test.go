package backend

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/variant"
)

// asleep is a server that sleeps for ever.
type asleep struct{}

func (asleep) Asleep() bool                        { return true }
func (asleep) Announce(string)                     {}
func (asleep) OnWake(func(time.Time)) (end func()) { return func() {} }

// Which clients are given the list that the feed is, is known after a restart if the server sleeps:
// to find it out again would wake it. Others are not stored.
func TestClientsOfSleepersAreKept(t *testing.T) {
	for name, sleeper := range map[string]Sleeper{"a server that sleeps": asleep{}, "another": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				first := newRef(t)
				first.Backend.await(t)
				first.Sleeper = sleeper
				restarted := func() *Ref {
					next := *first
					var err error
					if next.Backend, err = New("upstream", "http://localhost/mcp", &next); err != nil {
						t.Fatal(err)
					}
					next.Attach()
					next.Run()
					synctest.Wait()
					return &next
				}
				x := restarted()
				e := &cache.Entry{
					Kind: revision.Tools, Revision: revision.LatestLegacy, Partition: cache.Anonymous, Fetched: time.Now(), Lifetime: time.Hour,
					Mark: x.Cache.Mark(revision.Tools),
					Body: message.Compose(revision.Tools, []byte(`"tools":[`), [][]byte{[]byte(`{"name":"a"}`)}, []byte("]}}")),
				}
				x.Cache.Pin(e)
				synctest.Wait()
				same, other := variant.Client{Capabilities: []byte(`{"roots":{}}`), Name: "same"}, variant.Client{Capabilities: []byte(`{}`), Name: "other"}
				x.Variants.Learn(same).See(e.Revision, e.Kind, &cache.Seen{Items: e.Body.ItemsDigest, Mark: e.Mark, At: time.Now()}, e)
				x.Variants.Learn(other).See(e.Revision, e.Kind, &cache.Seen{Items: [32]byte{1}, Mark: e.Mark, At: time.Now()}, e)
				synctest.Wait()
				x.await(t)
				x = restarted()
				e = x.Cache.Pinned(e.Revision, e.Kind)
				if known := x.Variants.Learn(same).Seen(e.Revision, e.Kind).Agrees(e); known != (sleeper != nil) {
					t.Errorf("that clients are given the feed's list is known: %t", known)
				}
				if x.Variants.Learn(other).Seen(e.Revision, e.Kind) != nil {
					t.Error("what others are given is stored")
				}
				x.await(t)
			})
		})
	}
}
