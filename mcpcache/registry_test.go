package mcpcache

import (
	"slices"
	"sync"
	"testing"
)

func TestRegistryTellsUpstreamsApart(t *testing.T) {
	one, other := &shared{}, &shared{}
	make := func(name string, s *shared) *Handler { return &Handler{settings: &settings{name: name}, shared: s} }
	r := registry{handlers: map[string][]*Handler{}}
	if got := r.named("a"); len(got) != 0 {
		t.Errorf("an empty registry has %v", got)
	}
	old, newer, foreign, b := make("a", one), make("a", one), make("a", other), make("b", one)
	for _, h := range []*Handler{old, newer, foreign, b} {
		r.add(h)
	}
	if got := r.names(); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("names are %q", got)
	}
	if got := r.named("a"); !slices.Equal(got, []*Handler{newer, foreign}) {
		t.Errorf("a is %v, want the newer of each upstream", got)
	}
	r.remove(newer)
	if got := r.named("a"); !slices.Equal(got, []*Handler{old, foreign}) {
		t.Errorf("after the newer is rejected, a is %v", got)
	}
	r.remove(old)
	r.remove(old) // twice is harmless
	r.remove(foreign)
	if got := r.names(); !slices.Equal(got, []string{"b"}) {
		t.Errorf("names are %q", got)
	}
}

func TestRegistryMayBeUsedAtOnce(t *testing.T) {
	r := registry{handlers: map[string][]*Handler{}}
	var wg sync.WaitGroup
	for range 8 {
		h := &Handler{settings: &settings{name: "busy"}, shared: &shared{}}
		wg.Go(func() {
			for range 200 {
				r.add(h)
				r.whileLive("busy", func() {
					if len(r.handlers["busy"]) == 0 {
						t.Error("counted for a handler that is gone")
					}
				})
				if !slices.Contains(r.named("busy"), h) {
					t.Error("a registered handler is not found")
				}
				r.names()
				r.remove(h)
			}
		})
	}
	wg.Wait()
	r.whileLive("busy", func() { t.Error("counted for a handler that is gone") })
	if got := r.names(); len(got) != 0 {
		t.Errorf("%q are left", got)
	}
}
