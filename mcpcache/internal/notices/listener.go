package notices

import (
	"encoding/base64"
	"slices"
	"strconv"
	"strings"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/flight"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// Listener is a client that listens. Few bytes wait for it on its stream: it gets one notice for each
// kind, however often the kind changes.
type Listener struct {
	broker  *Broker
	era     revision.Era
	wants   revision.KindSet
	session *[16]byte // nil: it is in none

	pending revision.KindSet // broker.mu is held
	over    bool             // likewise
	changed chan struct{}
	ended   chan struct{}
}

// Listening says what a client listens for.
type Listening struct {
	Era revision.Era
	// Wants are the kinds that it is told of.
	Wants revision.KindSet
	// Session is the client's, nil if it has none. Of several streams of one, the newest is
	// told (2025-11-25, "Streamable HTTP", "Multiple Connections"), and there are at most
	// [MostOfSession].
	Session *[16]byte
	// Last is the id of the last event that it has been sent on a stream before, "" for none.
	// It is told at once of what has changed since. It has to be one: see [IsEventID].
	Last string
}

// MostOfSession is how many streams a session may have. One more ends the oldest.
const MostOfSession = 4

// Listen adds a client that listens. It has to be closed. It is [ErrFull] if there are too
// many.
func (b *Broker) Listen(to Listening) (*Listener, error) {
	l := &Listener{
		broker: b, era: to.Era, wants: to.Wants, session: to.Session,
		changed: make(chan struct{}, 1), ended: make(chan struct{}),
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.listeners) >= b.limit {
		return nil, ErrFull
	}
	if b.ended {
		l.end()
		return l, nil
	}
	b.listeners[l] = struct{}{}
	if l.session != nil {
		all := append(b.ofSession[*l.session], l)
		b.ofSession[*l.session] = all
		for _, old := range all[:max(0, len(all)-MostOfSession)] {
			old.end()
		}
	}
	if to.Last != "" {
		l.add(b.changedSince(l.era, to.Last)...)
	}
	return l, nil
}

// Close ends the listening. What the client has not been told of is for the stream before it,
// if its session has one.
func (l *Listener) Close() {
	b := l.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.listeners, l)
	if l.session == nil {
		return
	}
	left := slices.DeleteFunc(b.ofSession[*l.session], func(other *Listener) bool { return other == l })
	if len(left) == 0 {
		delete(b.ofSession, *l.session)
		return
	}
	b.ofSession[*l.session] = left
	for _, k := range Kinds {
		if l.pending.Has(k) {
			left[len(left)-1].add(k)
		}
	}
}

// Changed has a token when the client has something to be told: see [Listener.Take].
func (l *Listener) Changed() <-chan struct{} { return l.changed }

// Ended is closed when the stream is to end.
func (l *Listener) Ended() <-chan struct{} { return l.ended }

// Take returns what the client is to be told now: of these kinds, the lists have changed. id
// is for the last of the events that say so: who has not had that one is told again.
func (l *Listener) Take() (kinds []revision.Kind, id string) {
	b := l.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, k := range Kinds {
		if l.pending.Has(k) {
			kinds = append(kinds, k)
		}
	}
	l.pending = 0
	return kinds, b.eventID(l.era)
}

// isNewest reports whether what clients are told goes to that one of a session's streams. The
// caller holds b.mu.
func (b *Broker) isNewest(l *Listener) bool {
	if l.session == nil {
		return true
	}
	all := b.ofSession[*l.session]
	return all[len(all)-1] == l
}

// add notifies the client of those kinds that it wants. The caller holds the broker's mu.
func (l *Listener) add(kinds ...revision.Kind) {
	for _, k := range kinds {
		if l.wants.Has(k) {
			l.pending |= revision.SetOf(k)
		}
	}
	if l.pending == 0 {
		return
	}
	flight.Signal(l.changed)
}

// end ends the stream. The caller holds the broker's mu.
func (l *Listener) end() {
	if !l.over {
		l.over = true
		close(l.ended)
	}
}

// short is how many bytes of a list's digest are in the id of an event.
const short = 5

// eventID returns the id of an event: which lists clients have been told of, and a number that
// no other event has. The caller holds b.mu.
func (b *Broker) eventID(e revision.Era) string {
	b.numbers++
	state := make([]byte, 0, short*len(Kinds))
	for _, k := range Kinds {
		state = append(state, b.lists[e][k].notified[:short]...)
	}
	return base64.RawURLEncoding.EncodeToString(state) + "." + strconv.FormatInt(b.numbers, 36)
}

// IsEventID reports whether a text is the id of an event on a stream of this package.
func IsEventID(id string) bool { return stateOf(id) != nil }

func stateOf(id string) []byte {
	text, _, numbered := strings.Cut(id, ".")
	state, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || !numbered || len(state) != short*len(Kinds) {
		return nil
	}
	return state
}

// changedSince returns the kinds of which clients have been told something since the event of
// that id. The caller holds b.mu.
func (b *Broker) changedSince(e revision.Era, id string) (kinds []revision.Kind) {
	state := stateOf(id)
	for i, k := range Kinds {
		if string(state[i*short:(i+1)*short]) != string(b.lists[e][k].notified[:short]) {
			kinds = append(kinds, topicOf(k))
		}
	}
	return kinds
}
