package toolkit

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/feed"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/flight"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/identity"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// TestPlacesAreSharedOut: while a server is asked for as many callers as it may be, whoever has the most
// places gives the last one to those who have fewer.
func TestPlacesAreSharedOut(t *testing.T) {
	synctest.Test(t, sharesOutPlaces)
}

func sharesOutPlaces(t *testing.T) {
	s := &shows{asking: make(map[question]*showing)}
	callers, ended := 0, make(map[string][]int)
	ask := func(from string) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.makePlace(from) {
			return false
		}
		time.Sleep(time.Second)
		number := len(s.asking)
		asking := &showing{Flight: flight.New[*feed.Shown](), from: from, end: func(err error) {
			if !errors.Is(err, errTooMany) {
				t.Errorf("a place is given up because of %v", err)
			}
			ended[from] = append(ended[from], number)
		}}
		callers++
		s.asking[question{context: cache.ContextOf([16]byte{byte(callers), byte(callers >> 8)}, cache.Asked{})}] = asking
		return true
	}
	for range maxShowing {
		if !ask("stranger") {
			t.Fatal("there is a place, and it is not given")
		}
	}
	if ask("stranger") {
		t.Error("a stranger takes places of its own")
	}
	for n := range maxShowing / 2 {
		if !ask("other") {
			t.Fatalf("the other has %d places, and is not given another", n)
		}
	}
	if ask("other") || ask("stranger") {
		t.Error("one of two who have as many is given another")
	}
	if got := ended["stranger"]; len(got) != maxShowing/2 || got[0] != maxShowing-1 || len(ended["other"]) != 0 {
		t.Errorf("the stranger has lost %d places, the other %d", len(got), len(ended["other"]))
	}
	if !ask("third") || len(s.asking) != maxShowing {
		t.Errorf("of %d places there is none for a third", len(s.asking))
	}
}

// TestOrigins: callers count by themselves once the server has accepted them. Until then they count by the
// network from which they come.
func TestOrigins(t *testing.T) {
	v, s := personalVisit(t)
	origin := func(client string) string {
		own := *v
		own.r = v.r.WithContext(context.WithValue(t.Context(), caddyhttp.VarsCtxKey, map[string]any{caddyhttp.ClientIPVarKey: client}))
		return own.origin(s, revision.Tools)
	}
	for _, same := range [][2]string{{"192.0.2.1", "::ffff:192.0.2.1"}, {"2001:db8:1:2::3", "2001:db8:1:2:ffff::"}, {"@", "@"}} {
		if origin(same[0]) != origin(same[1]) {
			t.Errorf("%s and %s are told apart", same[0], same[1])
		}
	}
	for _, others := range [][2]string{{"192.0.2.1", "192.0.2.2"}, {"2001:db8:1:2::3", "2001:db8:1:3::3"}, {"@", ""}} {
		if origin(others[0]) == origin(others[1]) {
			t.Errorf("%s and %s are not told apart", others[0], others[1])
		}
	}
	stranger := origin("192.0.2.1")
	until := identity.AdmittedUntil(v.r, v.now, time.Minute)
	s.Admission.AdmitContext(v.presents(s).Context, revision.LatestModern, revision.SetOf(revision.Tools), s.Admission.Ticket(), until)
	if known := origin("192.0.2.1"); known == stranger || known != origin("192.0.2.2") {
		t.Errorf("a known caller counts as %q", known)
	}
	if v.now = v.now.Add(time.Hour); origin("192.0.2.1") != stranger {
		t.Error("a caller is known although that is long ago")
	}
}
