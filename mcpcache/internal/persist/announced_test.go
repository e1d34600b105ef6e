package persist

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// announce plays an upstream that announces a change of tools.
func (r *trial) announce() {
	r.cache.Bump(revision.SetOf(revision.Tools))
	synctest.Wait()
}

// wantAnnounced fails unless the tools are there after a restart, and known to
// have been announced as changed or not.
func (r *trial) wantAnnounced(what string, want bool) {
	r.t.Helper()
	next := r.restarted()
	e := next.cache.Pinned(revision.V20260728, revision.Tools)
	if e == nil || e.Mark.BeforeStart() != want || (next.cache.Freshness(e, time.Now()) == cache.Outdated) != want {
		r.t.Errorf("%s: after a restart, the tools are %+v", what, e)
	}
	if e := next.cache.Pinned(revision.V20260728, revision.Prompts); e == nil || e.Mark.BeforeStart() {
		r.t.Errorf("%s: after a restart, the prompts are %+v", what, e)
	}
}

// A list that was announced as changed is known to be, also after a restart and
// the next one, until it has been fetched.
func TestAnnouncedChangeOutlivesARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTrial(t)
		r.start()
		r.fetched(entryOf(t, revision.Tools, "a", cache.Public))
		r.fetched(entryOf(t, revision.Prompts, "p", cache.Public))
		r.store.Take()
		r.wantAnnounced("at first", false)
		r.store.Take()
		for range 10 { // however many notices come, they are saved in time
			r.announce()
			time.Sleep(announceDelay / 10)
		}
		synctest.Wait()
		r.want("announced", "save "+toolsKey)
		r.wantAnnounced("announced", true)
		r.stop()
		again := r.restarted()
		again.start()
		time.Sleep(touch + 2*upkeep)
		synctest.Wait()
		again.wantAnnounced("a day after a restart", true)
		again.store.Take()
		again.fetched(entryOf(t, revision.Tools, "a", cache.Public))
		again.want("fetched, the same", "save "+toolsKey)
		again.wantAnnounced("fetched, the same", false)
		again.announce()
		again.stop()
		again.wantAnnounced("announced and ended", true)
	})
}

// A change that is fetched at once costs nothing.
func TestAnnouncedChangeThatIsFetched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTrial(t)
		r.start()
		r.fetched(entryOf(t, revision.Tools, "a", cache.Public))
		r.store.Take()
		for range 5 {
			r.announce()
			time.Sleep(announceDelay - 1)
			r.fetched(entryOf(t, revision.Tools, "a", cache.Public))
			time.Sleep(time.Nanosecond)
			synctest.Wait()
		}
		r.want("announced and fetched")
	})
}

// What became of a list while it was being saved is not forgotten.
func TestAnnouncedWhileSaving(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTrial(t)
		r.start()
		r.fetched(entryOf(t, revision.Prompts, "p", cache.Public))
		r.store.SetTrouble(sleepyFor(time.Second))
		r.fetched(entryOf(t, revision.Tools, "a", cache.Public))
		r.announce()
		time.Sleep(3 * time.Second)
		synctest.Wait()
		r.wantAnnounced("announced while it was saved", true)
		r.fetched(entryOf(t, revision.Tools, "b", cache.Public))
		time.Sleep(3 * time.Second)
		r.announce()
		time.Sleep(announceDelay) // it is being saved
		r.fetched(entryOf(t, revision.Tools, "b", cache.Public))
		time.Sleep(3 * time.Second)
		synctest.Wait()
		r.wantAnnounced("fetched while it was saved", false)
	})
}

// A copy that does not tell of an announced change must not come back.
func TestAnnouncedChangeThatCannotBeSaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTrial(t)
		r.start()
		r.fetched(entryOf(t, revision.Tools, "a", cache.Public))
		r.store.SetTrouble(failingAt(false, "save"))
		r.announce()
		time.Sleep(announceDelay)
		synctest.Wait()
		if e := r.restarted().cache.Pinned(revision.V20260728, revision.Tools); e != nil {
			t.Errorf("after a restart there are %v", e.Body.Names())
		}
		r.store.SetTrouble(nil)
		time.Sleep(resave)
		synctest.Wait()
		e := r.restarted().cache.Pinned(revision.V20260728, revision.Tools)
		if e == nil || !e.Mark.BeforeStart() {
			t.Errorf("saved after all is %+v", e)
		}
	})
}

// A store that fails is asked once, and again a minute later, also for a list that is there as
// announced and was fetched since.
func TestAnnouncedChangeThatIsFetchedWhileNothingCanBeSaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTrial(t)
		r.start()
		r.fetched(entryOf(t, revision.Tools, "a", cache.Public))
		r.announce()
		time.Sleep(announceDelay)
		synctest.Wait()
		r.store.SetTrouble(failingAt(false, "save"))
		r.store.Take()
		r.fetched(entryOf(t, revision.Tools, "b", cache.Public))
		time.Sleep(resave - time.Nanosecond)
		synctest.Wait()
		r.want("while the store fails", "delete "+toolsKey, "save "+toolsKey)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		r.want("a minute later", "save "+toolsKey)
	})
}
