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
// server has lost it if it refuses pings in that session before and after it answers one in another session, which then
// takes the place of the lost one for all later requests. Some servers answer no pings at all: their sessions stay. But
// gone says that the server has refused the request as the specification has it for an unknown session. The other
// session then takes the place, too, and Renew reports false all the same.
//
// A session that was not lost is looked at again after ten seconds at the earliest, or with sure at once if the server
// answers pings.
func (s *Entry) Renew(ctx context.Context, o *Upstream, server Dialer, sure, gone bool) (lost bool) {
	o.checking.Lock()
	defer o.checking.Unlock()
	if o.lost || !s.has(o) || time.Now().Before(o.trusted) && (!sure || o.noPings) {
		return o.lost
	}
	ctx = context.WithoutCancel(ctx) // others who were refused wait for the same
	answered, refused := ping(ctx, server, o)
	o.trusted, o.noPings = time.Now().Add(checkEvery), !answered
	if !refused {
		return false
	}
	other := newUpstream(server)
	s.open(other, server)
	if other.err != nil {
		o.trusted, o.noPings = time.Now().Add(retryEvery), false
		return false
	}
	if answered, _ = ping(ctx, server, other); answered {
		answered, refused = ping(ctx, server, o)
		o.noPings = !answered
		o.lost = refused && s.replace(o, other)
	} else if gone && s.replace(o, other) {
		other.checking.Lock()
		defer other.checking.Unlock()
		other.trusted, other.noPings = o.trusted, true
		return false
	}
	if !o.lost {
		s.table.closing.add(other)
	}
	return o.lost
}

func ping(ctx context.Context, server Dialer, o *Upstream) (answered, refused bool) {
	ctx, cancel := context.WithTimeout(ctx, checkWithin)
	defer cancel()
	return server.Ping(ctx, o.Session)
}

// has reports whether requests to the server are still sent in that session.
func (s *Entry) has(o *Upstream) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.servers[o.Server] == o
}

// replace has requests to the server sent in another session. It reports false, and does nothing, if they are not sent
// in that one any more.
func (s *Entry) replace(o, by *Upstream) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.servers[o.Server] != o {
		return false
	}
	s.servers[o.Server] = by
	return true
}
