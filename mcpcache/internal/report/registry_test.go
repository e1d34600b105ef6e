package report

import (
	"slices"
	"sync"
	"testing"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/feed"
)

// source is one of that name and upstream, of which nothing else is known.
type source struct {
	Source

	name  string
	feeds *feed.Group
	url   string
}

func (s *source) Name() string { return s.name }

func (s *source) Feeds() *feed.Group { return s.feeds }

func (s *source) Upstream() string { return s.url }

func forgetNothing(string) {}

func TestRegistryTellsUpstreamsApart(t *testing.T) {
	one, other := &feed.Group{}, &feed.Group{}
	var r Registry
	if got := r.Named("a"); len(got) != 0 {
		t.Errorf("an empty registry has %v", got)
	}
	old, newer, foreign, b := &source{name: "a", feeds: one}, &source{name: "a", feeds: one, url: "http://1/mcp"},
		&source{name: "a", feeds: other, url: "http://2/mcp"}, &source{name: "b", feeds: one}
	for _, s := range []*source{old, newer, foreign, b} {
		r.Add(s)
	}
	if got := r.Names(); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("names are %q", got)
	}
	if got := r.Named("a"); !slices.Equal(got, []Source{newer, foreign}) {
		t.Errorf("a is %v, want the newer of each upstream", got)
	}
	const want = `2 handlers are called "a", in front of http://1/mcp and http://2/mcp: give them different names, with the option name`
	if _, err := r.Find("a"); err == nil || err.(*Error).Reason != Ambiguous || err.Error() != want {
		t.Errorf("of a name with two upstreams: %v", err)
	}
	if found, err := r.Find("b"); found != b || err != nil {
		t.Errorf("b is %v, %v", found, err)
	}
	r.Remove(newer, forgetNothing)
	if got := r.Named("a"); !slices.Equal(got, []Source{old, foreign}) {
		t.Errorf("after the newer is rejected, a is %v", got)
	}
	r.Remove(old, forgetNothing)
	r.Remove(old, forgetNothing) // twice is harmless
	var forgotten []string
	r.Remove(foreign, func(name string) { forgotten = append(forgotten, name) })
	if got := r.Names(); !slices.Equal(got, []string{"b"}) || !slices.Equal(forgotten, []string{"a"}) {
		t.Errorf("names are %q, forgotten are %q", got, forgotten)
	}
	if _, err := r.Find("a"); err == nil || err.(*Error).Reason != NotFound {
		t.Errorf("of a name that is gone: %v", err)
	}
}

func TestRegistryMayBeUsedAtOnce(t *testing.T) {
	var r Registry
	var wg sync.WaitGroup
	for range 8 {
		s := &source{name: "busy", feeds: &feed.Group{}}
		wg.Go(func() {
			for range 200 {
				r.Add(s)
				r.WhileLive("busy", func() {
					if len(r.sources["busy"]) == 0 {
						t.Error("counted for a handler that is gone")
					}
				})
				if !slices.Contains(r.Named("busy"), Source(s)) {
					t.Error("a registered handler is not found")
				}
				r.Names()
				r.Remove(s, forgetNothing)
			}
		})
	}
	wg.Wait()
	r.WhileLive("busy", func() { t.Error("counted for a handler that is gone") })
	if got := r.Names(); len(got) != 0 {
		t.Errorf("%q are left", got)
	}
}
