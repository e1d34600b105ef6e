package mcpcache

import (
	"bytes"
	"encoding/json"
	"sync/atomic"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/admission"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// misled is called when the upstream has refused a call for what the client took
// from a list. The caller's next list comes from the upstream; everybody else's
// stays what it is, and the feed looks whether it has changed.
func (x *exchange) misled() {
	s := x.h.shared
	doubt := admission.Doubt{Mark: s.cache.Doubt(revision.Tools), Misled: true}
	if caller := x.marked(); caller != nil {
		caller.Doubt(revision.Tools, doubt)
	}
	countChanges(x.h.settings.name, revision.SetOf(revision.Tools), sourceCall)
	for _, f := range s.feeds.All() {
		f.Recheck(revision.Tools)
	}
}

// marked returns the caller of whom something can be noted, or nil: callers
// without credentials and without a session cannot be told apart.
func (x *exchange) marked() *admission.Caller {
	memo := x.h.shared.admission
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
	s := x.h.shared
	feeds := s.feeds.All()
	var kinds revision.KindSet
	for _, f := range feeds {
		kinds |= f.MayBeSilent()
	}
	if kinds == 0 || s.readOnly(x.revision(), x.tool()) {
		return
	}
	caller := x.marked()
	for _, k := range revision.Kinds() {
		if !kinds.Has(k) {
			continue
		}
		mark, silent := s.cache.Doubt(k), false
		for _, f := range feeds {
			silent = f.CheckSilence(k) || silent
		}
		if silent && caller != nil {
			earlier := caller.Doubted(k)
			caller.Doubt(k, admission.Doubt{Mark: mark, Misled: earlier != nil && earlier.Misled})
		}
	}
}

// readOnlyTools are the tools of one list that say they change nothing.
type readOnlyTools struct {
	digest [32]byte
	names  map[string]bool
}

// readOnlyLists has one set for each revision.
type readOnlyLists [revision.Count]atomic.Pointer[readOnlyTools]

// readOnly reports whether the list of tools marks that one as read-only.
func (s *shared) readOnly(r revision.Revision, tool string) bool {
	e := s.cache.Pinned(r, revision.Tools)
	if e == nil || tool == "" {
		return false
	}
	set := s.readOnlyLists[r].Load()
	if set == nil || set.digest != e.Body.Digest {
		set = &readOnlyTools{digest: e.Body.Digest, names: make(map[string]bool)}
		for item := range e.Body.Each() {
			if marksReadOnly(item) {
				set.names[e.Body.Name(item)] = true
			}
		}
		s.readOnlyLists[r].Store(set)
	}
	return set.names[tool]
}

func marksReadOnly(item []byte) bool {
	var tool struct {
		Annotations struct {
			ReadOnlyHint bool `json:"readOnlyHint"`
		} `json:"annotations"`
	}
	return bytes.Contains(item, []byte("readOnlyHint")) && json.Unmarshal(item, &tool) == nil &&
		tool.Annotations.ReadOnlyHint
}
