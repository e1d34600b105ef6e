package exchange

import (
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/admission"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// misled is called when the upstream has refused a call for what the client took
// from a list. The caller's next list comes from the upstream; everybody else's
// stays what it is, and the feed looks whether it has changed.
func (x *exchange) misled() {
	b := x.backend
	doubt := admission.Doubt{Mark: b.Cache.Doubt(revision.Tools), Misled: true}
	if caller := x.marked(); caller != nil {
		caller.Doubt(revision.Tools, doubt)
	}
	x.endpoint.Observer.Noticed(revision.SetOf(revision.Tools), FromCall)
	for _, f := range b.Feeds.All() {
		f.Recheck(revision.Tools)
	}
}

// marked returns the caller of whom something can be noted, or nil: callers
// without credentials and without a session cannot be told apart.
func (x *exchange) marked() *admission.Caller {
	memo := x.backend.Admission
	if x.session != "" {
		return memo.Session(x.session)
	}
	if x.context.IsAnonymous() {
		return nil
	}
	return memo.RememberContext(x.context, x.streamRevision())
}

// called is called when the result of a call is about to leave: a tool may have
// changed what there is, and some upstreams do not say so.
func (x *exchange) called() {
	if x.method != "tools/call" || x.noticedCall {
		return
	}
	x.noticedCall = true
	b := x.backend
	feeds := b.Feeds.All()
	var kinds revision.KindSet
	for _, f := range feeds {
		kinds |= f.MayBeSilent()
	}
	if kinds == 0 || b.ReadOnly(x.revision(), x.tool()) {
		return
	}
	caller := x.marked()
	for _, k := range revision.Kinds() {
		if !kinds.Has(k) {
			continue
		}
		mark, silent := b.Cache.Doubt(k), false
		for _, f := range feeds {
			silent = f.CheckSilence(k) || silent
		}
		if silent && caller != nil {
			earlier := caller.Doubted(k)
			caller.Doubt(k, admission.Doubt{Mark: mark, Misled: earlier != nil && earlier.Misled})
		}
	}
}
