package session

import (
	"context"
	"time"
)

const (
	// checkWithin is how long a ping may take by which it is found out whether a session is lost.
	checkWithin = 10 * time.Second
	// checkEvery is how long a session is trusted that was not lost, though requests in it are refused, and retryEvery
	// how long it is not looked at after another could not be opened.
	checkEvery, retryEvery = 10 * time.Second, time.Second
)

// Renew finds out whether a server has lost a session in which it has refused a request. A status alone cannot tell. The
// server has lost it if it refuses a ping in that session, and answers one in another session, which then takes the
// place of the lost one for all later requests. Some servers answer no pings at all: their sessions stay. But gone says
// that the server has refused the request as the specification has it for an unknown session. The other session then
// takes the place, too, and Renew reports false all the same.
//
// A session that was not lost is looked at again after ten seconds at the earliest, or at once with sure.
func (s *Session) Renew(ctx context.Context, o *Opened, server Server, sure, gone bool) (lost bool) {
	o.checking.Lock()
	defer o.checking.Unlock()
	if o.lost || !s.has(o) || !sure && time.Now().Before(o.trusted) {
		return o.lost
	}
	ctx = context.WithoutCancel(ctx) // others who were refused wait for the same
	if !refusesPing(ctx, server, o) {
		o.trusted = time.Now().Add(checkEvery)
		return false
	}
	other := newOpened(server)
	s.open(other, server)
	if other.err != nil {
		o.trusted = time.Now().Add(retryEvery)
		return false
	}
	answers := !refusesPing(ctx, server, other)
	if (answers || gone) && s.replace(o, other) {
		o.lost = answers
		return answers
	}
	s.table.closing.add(other)
	o.trusted = time.Now().Add(checkEvery)
	return false
}

func refusesPing(ctx context.Context, server Server, o *Opened) bool {
	ctx, cancel := context.WithTimeout(ctx, checkWithin)
	defer cancel()
	return server.RefusesPing(ctx, o.Session)
}

// has reports whether requests to the server are still sent in that session.
func (s *Session) has(o *Opened) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.servers[o.Server] == o
}

// replace has requests to the server sent in another session. It reports false, and does nothing, if they are not sent
// in that one any more.
func (s *Session) replace(o, by *Opened) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.servers[o.Server] != o {
		return false
	}
	s.servers[o.Server] = by
	return true
}
