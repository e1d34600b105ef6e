package fleet

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/secret"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores/storetest"
)

const isIgnored = "something else than instances writes to the store what only they do: it is not kept"

// Every name that an instance makes is one, and none that is longer, or has other characters.
func TestWhatIsAName(t *testing.T) {
	longest := newName(strings.Repeat("x", 100))
	for _, name := range []string{longest, newName(""), newName(hostName()), "web-1.example.com-4k2babcdef"} {
		if !isName(name) {
			t.Errorf("%q is no name", name)
		}
	}
	for _, name := range []string{"", longest + "x", "a b", "a\n", "ä", "\xff", strings.Repeat("x", 1<<20)} {
		if isName(name) {
			t.Errorf("%.60q is a name", name)
		}
	}
}

// Of what others announce, an instance keeps names and marks as instances have them, and nothing else. The
// log says once that there was something else. What was said besides is heard.
func TestNothingElseIsKept(t *testing.T) {
	mark := marks(secret.Ring{secret.New()})[0]
	for what, said := range map[string]struct{ member, secrets string }{
		"a name that is too long": {strings.Repeat("x", longestName+1), `["` + mark + `"]`},
		"too many marks":          {"one", `["` + mark + `","` + mark + `","` + mark + `"]`},
		"a mark that is too long": {"one", `["` + mark + `0"]`},
		"a mark that is none":     {"one", `["` + mark[1:] + ` "]`},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fleet, trial := newFleet(t, 1)
				tools, prompts := of(fleet, revision.Tools), of(fleet, revision.Prompts)
				for range 3 {
					trial.Forge("place", stores.Announcement{Member: said.member, Message: []byte(`{"kinds":["tools"],"secrets":` + said.secrets + `}`)})
					synctest.Wait()
				}
				wantFresh(t, "after that", fleet, tools, false)
				wantFresh(t, "after that", fleet, prompts, true)
				if n := len(fleet[0].known.said); n != 0 {
					t.Errorf("of %d, something is kept", n)
				}
				fleet[0].wantIgnored(t)
			})
		})
	}
}

// wantIgnored fails unless one line of the log says that something was not kept, and no line is long.
func (i *instance) wantIgnored(t *testing.T) {
	t.Helper()
	lines := i.log.TakeAll()
	ignored := 0
	for _, line := range lines {
		if line.Message == isIgnored {
			ignored++
		}
		if text := fmt.Sprint(line.Message, line.ContextMap()); len(text) > 200+(mostLogged+2)*longestName {
			t.Errorf("a line of the log has %d bytes: %.500s", len(text), text)
		}
	}
	if ignored != 1 {
		t.Errorf("%d lines of the log say that something is ignored, want 1", ignored)
	}
}

// The most that an instance may say is kept, and not the message in which it was.
func TestMarksAreKeptAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fleet, trial := newFleet(t, 1)
		longest, both := newName(strings.Repeat("x", longestHost)), marks(secret.Ring{secret.New(), secret.New()})
		text := longest + " " + string(encode(news{marks: both}))
		member := text[:len(longest)]
		trial.Forge("place", stores.Announcement{Member: member, Message: []byte(text[len(longest)+1:])})
		synctest.Wait()
		for name, said := range fleet[0].known.said {
			if name != longest || !slices.Equal(said, both) {
				t.Errorf("of %q, %q is kept", name, said)
			}
			if unsafe.StringData(name) == unsafe.StringData(member) {
				t.Error("the name is kept with all that follows it")
			}
		}
		if len(fleet[0].known.said) != 1 {
			t.Error("nothing is kept")
		}
	})
}

// A message of the greatest length is understood, and of a longer one everything may have changed. So it may of
// one whose text the store has left out.
func TestLongMessages(t *testing.T) {
	message := func(size int) []byte {
		return []byte(`{"kinds":["tools"]` + strings.Repeat(" ", size-len(`{"kinds":["tools"]}`)) + "}")
	}
	for what, c := range map[string]struct {
		message []byte
		all     bool
	}{
		"the longest": {message(stores.MaxMessage), false}, "a longer one": {message(stores.MaxMessage + 1), true}, "without a text": {nil, true},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fleet, trial := newFleet(t, 1)
				tools, prompts := of(fleet, revision.Tools), of(fleet, revision.Prompts)
				for range 3 {
					trial.Forge("place", stores.Announcement{Member: "one", Message: c.message})
					synctest.Wait()
				}
				wantFresh(t, "after that", fleet, tools, false)
				wantFresh(t, "after that", fleet, prompts, !c.all)
				if c.all {
					fleet[0].wantIgnored(t)
				}
			})
		})
	}
}

// The longest that an instance announces is no longer than a message may be. Of longer URIs, it says that all
// resources have changed.
func TestLongestNews(t *testing.T) {
	n := news{marks: marks(secret.Ring{secret.New(), secret.New()})}
	for range maxURIs {
		n.add(news{Change: cache.Change{URIs: []string{strings.Repeat("\x01", maxURIBytes/maxURIs)}, Told: true}})
	}
	for r := revision.V20250326; int(r) < revision.Count; r++ {
		for _, k := range revision.Kinds() {
			n.add(news{Change: cache.Change{Lists: []cache.Listed{{Revision: r, Kind: k, Items: sha256.Sum256(nil), Outdated: true}}}})
		}
	}
	n.Kinds = everything &^ revision.SetOf(revision.Reads)
	if text := encode(n); len(text) > stores.MaxMessage || !slices.Equal(decode(text).URIs, n.URIs) || len(n.URIs) != maxURIs {
		t.Errorf("the longest message has %d bytes", len(text))
	}
	n = news{}
	n.add(news{Change: cache.Change{URIs: []string{strings.Repeat("x", maxURIBytes)}}})
	if n.Kinds != 0 || len(n.URIs) != 1 {
		t.Errorf("of the longest URIs, %d are announced", len(n.URIs))
	}
	n.add(news{Change: cache.Change{URIs: []string{"x"}}})
	if n.Kinds != revision.SetOf(revision.Reads) || n.URIs != nil {
		t.Errorf("of longer URIs, %d are announced", len(n.URIs))
	}
}

// crowded is a store to which others have written members.
type crowded struct {
	*storetest.Shared

	others atomic.Pointer[func() []string]
}

// Confirm implements [stores.Members].
func (c *crowded) Confirm(ctx context.Context, place, member string, heard uint64, life time.Duration) (stores.Standing, error) {
	is, err := c.Shared.Confirm(ctx, place, member, heard, life)
	if others := c.others.Load(); others != nil {
		is.Members = append(is.Members, (*others)()...)
	}
	return is, err
}

// crowd has an instance be told of other members, too.
func (i *instance) crowd(trial *storetest.Trial, others func() []string) {
	store := &crowded{Shared: &storetest.Shared{Trial: trial}}
	store.others.Store(&others)
	i.Use(store, zap.New(i.core))
}

// Of members, an instance knows as many as may be, itself among them, whose names are those of instances. The
// log names a few.
func TestManyMembers(t *testing.T) {
	for what, c := range map[string]struct{ others, long, known int }{
		"as many as may be": {maxMembers - 1, 0, maxMembers}, "one more": {maxMembers, 0, maxMembers},
		"very many": {9 * maxMembers, 0, maxMembers}, "names that are too long": {mostLogged, 3, mostLogged + 1},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				trial := storetest.NewTrial()
				i := newInstance(t, trial)
				i.crowd(trial, func() (names []string) {
					for n := range c.others {
						names = append(names, fmt.Sprintf("-%05d", n)) // before its own
					}
					return append(names, slices.Repeat([]string{strings.Repeat("x", longestName+1)}, c.long)...)
				})
				i.run(t)
				defer i.end()
				time.Sleep(life)
				members := i.Status().Members
				if len(members) != c.known || members[0] != "-00000" || members[len(members)-1] != i.Name() || !slices.IsSorted(members) {
					t.Errorf("it knows %d, %q", len(members), members)
				}
				last := i.log.FilterMessage(hasOther).All()[0].ContextMap()["members"].([]any)
				if want := fmt.Sprintf("and %d more", c.known-mostLogged); len(last) != mostLogged+1 || last[mostLogged] != want {
					t.Errorf("the log names %v, want that it ends with %q", last, want)
				}
				if c.others+1 > c.known || c.long > 0 {
					i.wantIgnored(t)
				}
			})
		})
	}
}

// Others who have the members be others all the time, each with other secrets, and announce something as often,
// are a line or two in the log in each beat.
func TestRestlessMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const beats = 40
		trial := storetest.NewTrial()
		i := newInstance(t, trial)
		i.UseSecrets(func(context.Context) (secret.Ring, error) { return secret.Ring{secret.New()}, nil })
		var round atomic.Int64
		names := func() (names []string) {
			for n := range 10 {
				names = append(names, fmt.Sprintf("other-%d-%d", round.Load(), n))
			}
			return names
		}
		i.crowd(trial, names)
		i.run(t)
		defer i.end()
		for range 50 * beats {
			for _, name := range names() {
				trial.Forge("place", stores.Announcement{Member: name, Message: encode(news{marks: []string{"0123456789abcdef"}})})
			}
			time.Sleep(beat / 50)
			round.Add(1)
		}
		changed, strangers := i.log.FilterMessage(hasOther).Len(), i.log.FilterMessageSnippet("has other secrets").Len()
		if changed < beats/2 || changed > beats+1 || strangers > beats+1 || strangers == 0 {
			t.Errorf("in %d beats, %d lines say that instances have changed, and %d that one has other secrets", beats, changed, strangers)
		}
	})
}
