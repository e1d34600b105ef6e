package exchange

import (
	"net/http"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/admission"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/header"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/outcome"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/sse"
)

// watch looks for notices in a part of an answer. If the part consists of whole
// events, as most do, a notice about a resource outdates that resource alone, else
// all resources.
func (l *learner) watch(p []byte) {
	ends := sse.EndsEvent(p)
	whole := l.between && ends && l.watcher.Format == sse.Stream
	l.between = ends
	var kinds revision.KindSet
	updates := 0
	l.watcher.Scan(p, func(method string) {
		changed := revision.Changed(method)
		kinds |= changed
		if changed.Has(revision.Reads) {
			updates++
		}
	})
	if kinds == 0 {
		return
	}
	var uris []string
	if updates > 0 && whole {
		// A notice that was not understood could be about any resource.
		if uris = updatedURIs(p); len(uris) == updates {
			kinds &^= revision.SetOf(revision.Reads)
		} else {
			uris = nil
		}
	}
	l.noticed(kinds, uris)
}

// maxNamed bounds how many resources one part of a stream may name as updated.
// Where there are more, all count.
const maxNamed = 64

// updatedURIs returns the URI of each notice about a resource in whole events, of
// at most [maxNamed]. Notices that parsers may read differently are left out.
func updatedURIs(events []byte) (uris []string) {
	sse.Find(events, func(data []byte) bool {
		var m message.Request
		if message.Decode(data, &m) == nil && revision.Changed(string(m.Method)).Has(revision.Reads) && m.URI != nil {
			uris = append(uris, message.Text(m.URI))
		}
		return len(uris) == maxNamed
	})
	return uris
}

// noticed outdates what a notice on this caller's own stream concerns, kinds and
// single resources, in all instances, and remembers that the caller has seen it.
func (l *learner) noticed(kinds revision.KindSet, resources []string) {
	l.bump(kinds, outcome.FromClient)
	if len(resources) > 0 {
		l.update(resources)
		kinds |= revision.SetOf(revision.Reads)
	}
	defer l.backend.Fleet.Settle(l.r.Context())
	caller := l.streamCaller()
	if kinds == 0 || caller == nil {
		return
	}
	// Notices for everybody come on the stream that is there for them; one in the
	// answer to a request is about that request (Streamable HTTP, "Sending
	// Messages to the Server", 6).
	own := l.session != "" && l.r.Method == http.MethodPost
	for k := range revision.Kind(revision.NumKinds) {
		if kinds.Has(k) {
			caller.SeeNotice(k, admission.NoticeSeen{Mark: l.backend.Cache.Mark(k), Differs: own})
		}
	}
}

// bump marks everything of those kinds as outdated, and tells the observer where the
// change was noticed.
func (l *learner) bump(kinds revision.KindSet, source outcome.Source) {
	l.backend.Cache.BumpTold(kinds)
	l.endpoint.Observer.Noticed(kinds, source)
}

// update marks what was read of those resources as outdated.
func (l *learner) update(resources []string) {
	for _, uri := range resources {
		l.backend.Cache.Update(uri)
	}
	l.endpoint.Observer.Noticed(revision.SetOf(revision.Reads), outcome.FromClient)
}

// streamCaller returns what is known of the caller whose stream this is, and
// remembers a new one. It is nil if that is not possible.
func (l *learner) streamCaller() *admission.Caller {
	ledger := l.backend.Admission
	r := l.streamRevision()
	if r.Era() != revision.Legacy || l.session == "" {
		return ledger.RememberContext(l.context, r)
	}
	if known := ledger.Session(l.session); known != nil || header.First(l.r.Header["Mcp-Protocol-Version"]) == "" {
		return known
	}
	return ledger.RememberSession(l.session, l.context, r)
}

// streamRevision returns the revision of the caller whose stream this is.
func (x *exchange) streamRevision() revision.Revision {
	if x.session != "" {
		if known := x.backend.Admission.Session(x.session); known != nil {
			return known.Revision
		}
	}
	if named := header.First(x.r.Header["Mcp-Protocol-Version"]); named != "" {
		return revision.Parse(named)
	}
	return revision.V20250326 // what a server assumes without the header
}
