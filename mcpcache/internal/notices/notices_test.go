package notices

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

var all = revision.SetOf(Kinds[:]...)

// fixture is a board with one publisher.
type fixture struct {
	*Broker
	*Publisher
	t *testing.T
}

func newFixture(t *testing.T) *fixture {
	b := NewBroker()
	b.SetLimit(100)
	return &fixture{b, b.Publisher(func() {}), t}
}

// shows publishes a list that has the items of that name, and tells of it if that is news.
func (f *fixture) shows(k revision.Kind, items byte, announced bool) {
	if f.Publish(revision.Legacy, k, Digest{items}, announced) {
		f.Notify(revision.Legacy, k)
	}
}

func (f *fixture) listen(to Listening) *Listener {
	f.t.Helper()
	l, err := f.Listen(to)
	if err != nil {
		f.t.Fatal(err)
	}
	return l
}

// told returns what a listener is to be told now, and the id of the event.
func (f *fixture) told(l *Listener) ([]revision.Kind, string) {
	select {
	case <-l.Changed():
	default:
		return nil, ""
	}
	return l.Take()
}

func (f *fixture) wants(what string, l *Listener, want ...revision.Kind) (id string) {
	f.t.Helper()
	got, id := f.told(l)
	if !slices.Equal(got, want) {
		f.t.Errorf("%s: told of %v, want %v", what, got, want)
	}
	return id
}

func TestWhoListensIsTold(t *testing.T) {
	f := newFixture(t)
	one := f.listen(Listening{Wants: all})
	tools := f.listen(Listening{Wants: revision.SetOf(revision.Tools)})
	modern := f.listen(Listening{Era: revision.Modern, Wants: all})
	for _, k := range Kinds {
		f.shows(k, 1, true)
	}
	f.wants("what was there before", one)
	f.shows(revision.Tools, 1, true)
	f.wants("what is no change", one)
	for n := range byte(3) {
		f.shows(revision.ResourceTemplates, n+2, true)
		f.shows(revision.Tools, n+2, true)
	}
	f.wants("many changes", one, revision.Tools, revision.Resources)
	f.wants("a filter", tools, revision.Tools)
	f.wants("the other era", modern)
	f.shows(revision.Prompts, 2, true)
	f.wants("a filter", tools)
	one.Close()
	f.shows(revision.Tools, 9, true)
	f.wants("one that has left", one, revision.Prompts)
}

func TestUnannouncedChangesAreToldOnceInAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		l := f.listen(Listening{Wants: all})
		f.shows(revision.Tools, 0, false)
		f.shows(revision.Tools, 1, false)
		f.wants("the first", l, revision.Tools)
		for n := range byte(10) {
			f.shows(revision.Tools, n+2, false)
		}
		f.shows(revision.Prompts, 1, false)
		f.shows(revision.Prompts, 2, false)
		f.wants("more of them", l, revision.Prompts)
		f.shows(revision.Tools, 20, true)
		f.wants("one that is announced", l, revision.Tools)
		f.shows(revision.Tools, 21, false)
		f.wants("one more", l)
		f.shows(revision.Tools, 21, true)
		f.wants("one that is announced after it was found", l, revision.Tools)
		f.shows(revision.Tools, 21, true)
		f.shows(revision.Tools, 22, false)
		f.wants("one more", l)
		time.Sleep(Pause)
		f.shows(revision.Tools, 22, false)
		f.wants("after the pause", l, revision.Tools)
		f.shows(revision.Tools, 21, false)
		f.shows(revision.Tools, 22, false)
		time.Sleep(Pause)
		f.shows(revision.Tools, 22, false)
		f.wants("what is as before after all", l)
		f.shows(revision.Tools, 22, true)
		f.wants("what is announced, and as before", l)
		f.End()
		f.shows(revision.Tools, 23, true)
		f.wants("after the end", l)
	})
}

func TestWhoComesBackIsToldWhatWasMissed(t *testing.T) {
	f := newFixture(t)
	l := f.listen(Listening{Wants: all})
	f.shows(revision.Tools, 1, true)
	f.shows(revision.Tools, 2, true)
	first := f.wants("a change", l, revision.Tools)
	f.shows(revision.Prompts, 1, true)
	f.shows(revision.Prompts, 2, true)
	second := f.wants("another", l, revision.Prompts)
	f.wants("behind", f.listen(Listening{Wants: all, Last: first}), revision.Prompts)
	f.wants("not behind", f.listen(Listening{Wants: all, Last: second}))
	if first == second || !IsEventID(first) {
		t.Errorf("the ids of events are %s and %s", first, second)
	}
	restarted := newFixture(t)
	restarted.shows(revision.Tools, 2, true)
	restarted.shows(revision.Prompts, 3, true)
	restarted.wants("after a restart", restarted.listen(Listening{Wants: all, Last: second}), revision.Prompts)
	for _, id := range []string{"", "7", ".", "AAAA.1", first[:len(first)-1-len(first[27:])], "!" + first} {
		if IsEventID(id) {
			t.Errorf("%q is the id of an event", id)
		}
	}
}

func TestStreamsOfASession(t *testing.T) {
	f := newFixture(t)
	f.shows(revision.Tools, 0, true)
	id := &[16]byte{1}
	older := f.listen(Listening{Wants: all, Session: id})
	newer := f.listen(Listening{Wants: all, Session: id})
	other := f.listen(Listening{Wants: all, Session: &[16]byte{2}})
	f.shows(revision.Tools, 1, true)
	f.wants("the older", older)
	f.wants("the newer", newer, revision.Tools)
	f.shows(revision.Tools, 2, true)
	newer.Close()
	f.wants("the older, when the newer has left", older, revision.Tools)
	older.Close()
	older = f.listen(Listening{Wants: all, Session: id})
	streams := []*Listener{older}
	for range MostOfSession {
		streams = append(streams, f.listen(Listening{Wants: all, Session: id}))
	}
	for i, l := range streams {
		if hasEnded(l) != (i == 0) {
			t.Errorf("stream %d of %d: ended is %v", i, len(streams), hasEnded(l))
		}
	}
	f.EndSession(*id)
	for _, l := range streams {
		if !hasEnded(l) {
			t.Error("a stream goes on after its session")
		}
		l.Close()
	}
	if hasEnded(other) {
		t.Error("a stream has ended with another session")
	}
	other.Close()
	if n := len(f.listeners) + len(f.ofSession); n != 0 {
		t.Errorf("%d entries are left", n)
	}
}

func hasEnded(l *Listener) bool {
	select {
	case <-l.Ended():
		return true
	default:
		return false
	}
}

func TestTheLastPublisherCounts(t *testing.T) {
	b := NewBroker()
	b.SetLimit(1)
	again := 0
	before := &fixture{b, b.Publisher(func() { again++ }), t}
	before.shows(revision.Tools, 1, true)
	l := before.listen(Listening{Wants: all})
	if _, err := b.Listen(Listening{Wants: all}); err != ErrFull {
		t.Errorf("one more than there may be: %v", err)
	}
	after := &fixture{b, b.Publisher(func() { t.Error("it counted before") }), t}
	before.shows(revision.Tools, 2, true)
	before.wants("what does not count", l)
	after.shows(revision.Tools, 1, true)
	before.wants("what is as before", l)
	after.Publisher.Close()
	if again != 1 {
		t.Errorf("the first one was told %d times that it counts", again)
	}
	after.shows(revision.Tools, 3, true)
	before.wants("what counts no more", l)
	before.shows(revision.Tools, 2, true)
	before.wants("what counts again", l, revision.Tools)
	before.Publisher.Close()
	b.End()
	b.End()
	l.Close()
	if !hasEnded(l) || !hasEnded(before.listen(Listening{Wants: all})) {
		t.Error("a stream goes on after the end")
	}
}
