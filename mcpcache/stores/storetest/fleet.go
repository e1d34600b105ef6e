package storetest

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/stores"
)

// RunFleet runs the tests that every [stores.Fleet] must pass, besides those of [Run]. Each
// test has a new store, without values and leases.
func RunFleet(t *testing.T, newStore func(*testing.T) stores.Fleet) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, stores.Fleet){
		"keeps what is newest":         testNewest,
		"tells who knows too little":   testKnown,
		"has one holder":               testOneHolder,
		"ends leases with their lives": testEnds,
		"extends":                      testExtends,
		"releases":                     testReleases,
		"announces":                    testAnnounces,
		"confirms":                     testConfirms,
		"confirms no foreign number":   testForeignNumbers,
		"tells who is a member":        testMembers,
		"needs no confirmation":        testAlone,
		"ends memberships":             testMembershipEnds,
	} {
		t.Run(name, func(t *testing.T) { test(t, newStore(t)) })
	}
}

// holder is who has the leases of the tests.
const holder = "host-1.example-4k2b"

// moment returns the nth of times that are a microsecond apart.
func moment(n int) time.Time {
	return time.Date(2026, 7, 28, 12, 0, 0, 0, time.UTC).Add(time.Duration(n) * time.Microsecond)
}

func testNewest(t *testing.T, s stores.Fleet) {
	for _, step := range []struct {
		at   int
		want error
	}{{2, nil}, {1, stores.ErrNewer}, {3, nil}, {3, nil}, {2, stores.ErrNewer}, {4, nil}} {
		before, _ := s.Load(t.Context(), key)
		value := []byte{byte(step.at)}
		if err := s.SaveAt(t.Context(), key, moment(step.at), value); !errors.Is(err, step.want) {
			t.Errorf("saving as of %d: %v, want %v", step.at, err, step.want)
		}
		if step.want != nil {
			value = before
		}
		wantValue(t, s, key, value)
	}
	for _, second := range []int64{9, 10, 100} { // by a clock that nobody has set
		if err := s.SaveAt(t.Context(), "a/clock", time.Unix(second, 0), nil); err != nil {
			t.Errorf("saving as of second %d: %v", second, err)
		}
	}
	save(t, s, key, []byte("whatever is there"))
	wantValue(t, s, key, []byte("whatever is there"))
	if err := s.SaveAt(t.Context(), key, moment(0), []byte("is newer")); err != nil {
		t.Errorf("over what is as of no time: %v", err)
	}
	remove(t, s, key)
	if err := s.SaveAt(t.Context(), key, moment(0), []byte("after that")); err != nil {
		t.Errorf("after it was deleted: %v", err)
	}
	wantValue(t, s, key, []byte("after that"))
}

func testKnown(t *testing.T, s stores.Fleet) {
	if err := s.SaveAt(t.Context(), key, moment(2), nil); err != nil {
		t.Fatal(err)
	}
	wantLease(t, s, key, moment(1), time.Hour, stores.ErrNewer)
	held := wantLease(t, s, key, moment(2), time.Hour, nil)
	wantLease(t, s, key, moment(1), time.Hour, stores.ErrNewer) // who takes that need not wait
	wantLease(t, s, key, moment(3), time.Hour, stores.ErrHeld)
	_, err := s.Lease(t.Context(), key, "another", moment(3), time.Hour)
	if other, known := errors.AsType[*stores.HeldError](err); !known || other.Holder != holder {
		t.Errorf("who has the lease is told by %v, want that it is %s", err, holder)
	}
	wantLease(t, s, "another/key", moment(0), time.Hour, nil)
	save(t, s, "another/one", []byte("as of no time"))
	wantLease(t, s, "another/one", moment(0), time.Hour, nil)
	if err := s.SaveAt(t.Context(), key, moment(4), []byte("by the holder")); err != nil {
		t.Error(err)
	}
	if err := held.Release(t.Context()); err != nil {
		t.Error(err)
	}
	wantLease(t, s, key, moment(3), time.Hour, stores.ErrNewer)
	wantValue(t, s, key, []byte("by the holder"))
}

func testOneHolder(t *testing.T, s stores.Fleet) {
	var holders atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			switch _, err := s.Lease(t.Context(), key, holder, moment(0), time.Hour); {
			case err == nil:
				holders.Add(1)
			case !errors.Is(err, stores.ErrHeld):
				t.Errorf("taking a lease that another has: %v", err)
			}
		})
	}
	if all.Wait(); holders.Load() != 1 {
		t.Errorf("%d have the lease", holders.Load())
	}
}

func testEnds(t *testing.T, s stores.Fleet) {
	first := wantLease(t, s, key, moment(0), time.Millisecond, nil)
	second := awaitLease(t, s, key, time.Hour)
	if err := first.Extend(t.Context(), time.Hour); !errors.Is(err, stores.ErrHeld) {
		t.Errorf("extending a lease that has ended: %v", err)
	}
	if err := first.Release(t.Context()); err != nil {
		t.Errorf("releasing a lease that has ended: %v", err)
	}
	wantLease(t, s, key, moment(0), time.Hour, stores.ErrHeld)
	if err := second.Extend(t.Context(), time.Hour); err != nil {
		t.Error(err)
	}
}

func testExtends(t *testing.T, s stores.Fleet) {
	const life = 2 * time.Second
	extended := wantLease(t, s, key, moment(0), life, nil)
	if err := extended.Extend(t.Context(), time.Hour); err != nil {
		t.Fatal(err)
	}
	wantLease(t, s, "a/clock", moment(0), life, nil)
	awaitLease(t, s, "a/clock", life) // so the first would have ended, too
	wantLease(t, s, key, moment(0), life, stores.ErrHeld)
}

func testReleases(t *testing.T, s stores.Fleet) {
	for range 3 {
		l := wantLease(t, s, key, moment(0), time.Hour, nil)
		if err := l.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// wantLease fails unless asking for a lease gives that error, or the lease if it is nil.
func wantLease(t *testing.T, s stores.Fleet, key string, known time.Time, life time.Duration, want error) stores.Lease {
	t.Helper()
	l, err := s.Lease(t.Context(), key, holder, known, life)
	if !errors.Is(err, want) || (l == nil) != (err != nil) {
		t.Fatalf("the lease of %s is %v, %v, want %v", key, l, err, want)
	}
	return l
}

// awaitLease takes a lease as soon as another has ended.
func awaitLease(t *testing.T, s stores.Fleet, key string, life time.Duration) stores.Lease {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		l, err := s.Lease(t.Context(), key, holder, moment(0), life)
		if err == nil {
			return l
		}
		if !errors.Is(err, stores.ErrHeld) || time.Now().After(deadline) {
			t.Fatalf("waiting for the lease of %s: %v", key, err)
		}
	}
}
