package exchange

import (
	"net/http"
)

// mayBeBlocked reports whether the upstream may refuse this initialize because the feed has the
// only session that the upstream takes.
func (fw *forwarding) mayBeBlocked() bool {
	return fw.in.Method == "initialize" && fw.in.Body.Whole && fw.in.Message.ID != nil && fw.backend.Feeds.MayBlockClients()
}

// openInPlace sends an initialize to the upstream. If the upstream refuses it, the feed ends its
// own session, and openInPlace sends the request again. A client must not be worse off because of
// the feed.
func (fw *forwarding) openInPlace() error {
	fw.in.Body.Replay(fw.r)
	t := fw.tap(fw.w.Header().Clone())
	t.awaitsSession = true
	defer t.learner.close() // the upstream's handler may abort with a panic
	err := t.serve()
	if !t.withheld {
		return t.finish(err)
	}
	defer fw.backend.Feeds.GiveWay(fw.r.Context())()
	fw.in.Body.Replay(fw.r)
	again := fw.tap(fw.w.Header())
	defer again.learner.close()
	return again.finish(again.serve())
}

// isTaken reports whether a server may refuse a further session by that status. Who the
// client is, is another matter.
func isTaken(status int) bool {
	return status >= http.StatusBadRequest && status != http.StatusUnauthorized && status != http.StatusForbidden
}
