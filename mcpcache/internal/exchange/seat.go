package exchange

import (
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// mayTakeSeat reports whether this is an initialize that may be refused because the feed
// has the only session that the upstream takes.
func (x *exchange) mayTakeSeat() bool {
	return x.in.Method == "initialize" && x.in.Body.Whole && x.in.Message.ID != nil && x.backend.Feeds.MayHoldSeat()
}

// takeSeat hands an initialize on. If it is refused, the feed ends its session, and the
// request is sent again: a client must not be worse off for the feed.
func (x *exchange) takeSeat(next caddyhttp.Handler, f found) error {
	x.in.Body.Replay(x.r)
	t := x.tap(f, false)
	t.header, t.seat = x.w.Header().Clone(), true
	defer t.learner.close() // the upstream's handler may abort with a panic
	err := t.serve(next)
	if !t.withheld {
		return t.finish(err)
	}
	defer x.backend.Feeds.GiveWay(x.r.Context())()
	x.in.Body.Replay(x.r)
	again := x.tap(f, false)
	defer again.learner.close()
	return again.finish(again.serve(next))
}

// isTaken reports whether a server may refuse a further session by that status. Who the
// client is, is another matter.
func isTaken(status int) bool {
	return status >= http.StatusBadRequest && status != http.StatusUnauthorized && status != http.StatusForbidden
}
