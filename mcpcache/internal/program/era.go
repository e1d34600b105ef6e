package program

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/jsonrpc"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// era is what is known of what a program speaks.
type era struct {
	fixed bool // by the configuration
	// silence is how long a process may take to answer server/discover until it is asked whether it
	// reads at all: some that have sessions say nothing to a request before initialize.
	silence time.Duration
	changed func() // is called when something else is known

	mu       sync.Mutex
	speaks   speaks
	endings  int       // of processes that were sent server/discover
	sessions bool      // one was opened
	until    time.Time // no other one is
}

// speaks is what a program speaks; a program that speaks both is modern.
type speaks int

const (
	unknownEra speaks = iota
	isModern
	isLegacy
)

const usualSilence = 5 * time.Second

// is reports whether the program speaks that. For a while after a process has ended that was
// sent server/discover, it has sessions.
func (e *era) is(what speaks) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.speaks == unknownEra && time.Now().Before(e.until) {
		return what == isLegacy
	}
	return e.speaks == what
}

// found notes what the program speaks.
func (e *era) found(what speaks) {
	e.set(func() {
		e.speaks, e.endings, e.sessions, e.until = what, 0, false, time.Time{}
	})
}

// set changes what is known, unless that is fixed.
func (e *era) set(how func()) {
	if e.fixed {
		return
	}
	e.mu.Lock()
	before := e.speaks
	how()
	changed := e.speaks != before
	e.mu.Unlock()
	if changed {
		e.changed()
	}
}

// name returns the era that the program speaks, "" if that is not known.
func (e *era) name() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch e.speaks {
	case isModern:
		return revision.Modern.String()
	case isLegacy:
		return revision.Legacy.String()
	case unknownEra:
	}
	return ""
}

// eraOf returns what the name of an era means, which may be "".
func eraOf(name string) speaks {
	switch name {
	case revision.Modern.String():
		return isModern
	case revision.Legacy.String():
		return isLegacy
	}
	return unknownEra
}

// ended notes that a process has ended that was sent server/discover.
func (e *era) ended() {
	e.set(func() {
		e.until = time.Now().Add(pause(e.endings))
		e.endings++
		e.conclude()
	})
}

// opened notes that the program has opened a session.
func (e *era) opened() {
	e.set(func() {
		e.sessions = true
		e.conclude()
	})
}

// conclude finds out whether it is server/discover that processes end of, if they do: one that is
// sent initialize does not. The lock is held.
func (e *era) conclude() {
	if e.speaks == unknownEra && e.sessions && e.endings > 0 {
		e.speaks = isLegacy
	}
}

var (
	discover = []byte(`{"jsonrpc":"2.0","id":0,"method":"server/discover","params":{"_meta":{"` +
		message.MetaRevision + `":"` + revision.LatestModern.String() + `","` +
		message.MetaCapabilities + `":{},"` + message.MetaClientInfo + `":` + ourName + `}}}`)
	pinging = []byte(`{"jsonrpc":"2.0","id":0,"method":"ping"}`)
)

var (
	// errLegacy says that the program has sessions.
	errLegacy = errors.New(notModern)
	// errPinged says that a process is modern, and was sent what may have it be something else.
	errPinged = errors.New("process was pinged")
)

// greet implements [owner]: a process that answers server/discover, or names the revisions that
// it speaks, is modern. Any other answer, none, and an end mean that it has sessions (2026-07-28,
// "stdio", "Backward Compatibility"). But an end is believed only if a session could be opened.
func (m *modern) greet(c *child, timeout time.Duration) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), timeout, errSlow)
	defer cancel()
	asked := &call{answer: newStream(nil)}
	err := c.sendRequest(ctx, discover, asked)
	var answer []byte
	pinged := false
	if err == nil {
		answer, pinged, err = m.discovered(ctx, c, asked)
	}
	switch {
	case errors.Is(err, errSlow):
		return nil, err
	case err == nil && isDiscovered(answer):
		m.era.found(isModern)
		if pinged {
			return nil, errPinged
		}
		m.record(discover, answer)
		return answer, nil
	case m.era.fixed:
		return nil, fmt.Errorf("it does not speak %s: %w", revision.LatestModern, reasonOf(answer, err))
	case err != nil: // it may have ended for another reason
		m.era.ended()
	default:
		m.era.found(isLegacy)
	}
	return nil, errLegacy
}

// discovered waits for the answer to server/discover. A process that is silent is pinged; if it
// answers that alone, there is none.
func (m *modern) discovered(ctx context.Context, c *child, asked *call) (answer []byte, pinged bool, err error) {
	wait := m.era.silence
	if m.era.is(isModern) { // it has answered before, so it will
		wait = time.Until(deadlineOf(ctx))
	}
	first, last := asked.answer.next(wait, ctx.Done())
	answer = first.message
	ping := &call{answer: newStream(nil)}
	if answer == nil && !last && ctx.Err() == nil {
		pinged = true
		err = c.sendRequest(ctx, pinging, ping)
	}
	for answer == nil && err == nil && !last && ctx.Err() == nil {
		if pong, _ := ping.answer.take(); pong.message != nil && isResult(pong.message) { // modern servers know no ping
			first, _ = asked.answer.next(m.era.silence, ctx.Done())
			answer = first.message
			break
		}
		select {
		case <-asked.answer.signal:
			first, last = asked.answer.take()
			answer = first.message
		case <-ping.answer.signal:
		case <-ctx.Done():
		}
	}
	select {
	case <-c.gone:
		return nil, pinged, errGone
	default:
	}
	if answer == nil && err == nil {
		err = context.Cause(ctx)
	}
	return answer, pinged, err
}

func deadlineOf(ctx context.Context) time.Time {
	deadline, _ := ctx.Deadline()
	return deadline
}

func isResult(answer []byte) bool {
	response, err := message.ParseResponse(answer)
	return err == nil && response.Error == nil
}

// isDiscovered reports whether an answer to server/discover is that of a modern server.
func isDiscovered(answer []byte) bool {
	response, err := message.ParseResponse(answer)
	switch {
	case err != nil:
		return false
	case response.Error != nil:
		return response.Error.Code == jsonrpc.UnsupportedVersion && namesModern(response.Error.Supported)
	}
	info, err := message.ParseServerInfo(response.Result)
	return err == nil && namesModern(info.SupportedVersions)
}

// namesModern reports whether one of the versions is modern. Those that are later than ours
// are: versions are dates.
func namesModern(versions []string) bool {
	for _, version := range versions {
		if version >= revision.LatestModern.String() {
			return true
		}
	}
	return false
}

// reasonOf says what is wrong with an answer to server/discover.
func reasonOf(answer []byte, err error) error {
	if err != nil {
		return err
	}
	response, err := message.ParseResponse(answer)
	switch {
	case err != nil:
		return err
	case response.Error != nil:
		return response.Error
	}
	return errors.New("server/discover names no such revision")
}
