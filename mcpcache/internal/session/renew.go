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
func (e *Entry) Renew(ctx context.Context, u *Upstream, server Dialer, sure, gone bool) (lost bool) {
	u.checking.Lock()
	defer u.checking.Unlock()
	if u.lost || !e.has(u) || time.Now().Before(u.trusted) && (!sure || u.noPings) {
		return u.lost
	}
	ctx = context.WithoutCancel(ctx) // others who were refused wait for the same
	answered, refused := ping(ctx, server, u)
	u.trusted, u.noPings = time.Now().Add(checkEvery), !answered
	if !refused {
		return false
	}
	other := newUpstream(server)
	e.open(other, server)
	if other.err != nil {
		u.trusted, u.noPings = time.Now().Add(retryEvery), false
		return false
	}
	if answered, _ = ping(ctx, server, other); answered {
		answered, refused = ping(ctx, server, u)
		u.noPings = !answered
		u.lost = refused && e.replace(u, other)
	} else if gone && e.replace(u, other) {
		other.checking.Lock()
		defer other.checking.Unlock()
		other.trusted, other.noPings = u.trusted, true
		return false
	}
	if !u.lost {
		e.table.closing.add(other)
	}
	return u.lost
}

func ping(ctx context.Context, server Dialer, u *Upstream) (answered, refused bool) {
	ctx, cancel := context.WithTimeout(ctx, checkWithin)
	defer cancel()
	return server.Ping(ctx, u.Session)
}

// has reports whether requests to the server are still sent in that session.
func (e *Entry) has(u *Upstream) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.servers[u.Server] == u
}

// replace has requests to the server sent in another session. It reports false, and does nothing, if they are not sent
// in that one any more.
func (e *Entry) replace(u, by *Upstream) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed || e.servers[u.Server] != u {
		return false
	}
	e.servers[u.Server] = by
	return true
}
