package exchange

import (
	"strings"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/admission"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/variant"
)

// none are the capabilities of a client that has none.
const none = "{}"

// resolve finds out of what variant the client is that asks, whose
// Accept-Language is language if the upstream minds it.
func (x *search) resolve(caller *admission.Caller, language string) {
	q := &x.question
	switch {
	case q.revision.Era() == revision.Legacy && x.session != "":
		x.resolveSession(caller, language)
		return
	case q.revision.Era() == revision.Legacy:
		q.capabilities = []byte(none) // the upstream cannot know them
	}
	if language == "" && string(q.capabilities) == none {
		return
	}
	q.record = x.backend.Variants.Learn(variant.Client{Capabilities: q.capabilities, Language: language})
	if q.record == nil {
		q.variant = x.backend.UnknownVariant("capabilities", string(q.capabilities))
		return
	}
	q.variant = q.record.Key
}

// resolveSession takes what the client said when it opened its session.
func (x *search) resolveSession(caller *admission.Caller, language string) {
	q := &x.question
	if caller != nil {
		key, known := caller.Variant()
		if known && key == (cache.Variant{}) {
			return
		}
		if known {
			q.record = x.backend.Variants.Of(key)
		}
	}
	if q.record != nil && language != "" {
		client := q.record.Client
		client.Language = language
		q.record = x.backend.Variants.Learn(client)
	}
	if q.record == nil {
		q.variant = x.backend.UnknownVariant("session", x.session)
		return
	}
	q.variant = q.record.Key
}

// language is the Accept-Language of a request, if the upstream minds it.
func (x *exchange) language() string {
	if !x.backend.MindsLanguage() {
		return ""
	}
	language := strings.Join(x.r.Header["Accept-Language"], ",")
	if language == "*" { // what fetch sends by itself
		return ""
	}
	return language
}

// seen is the list that the upstream has last given to such a client as asks.
func (x *search) seen(caller *admission.Caller) *cache.Seen {
	q := &x.question
	switch {
	case q.record != nil:
		return q.record.Seen(q.revision, q.kind)
	case caller != nil:
		return caller.Seen(q.kind)
	}
	return nil
}

// shares reports whether the feed's snapshot is what such a client as asks is
// given.
func (x *search) shares(snapshot *cache.Entry, caller *admission.Caller) bool {
	return x.question.variant == cache.Variant{} || x.seen(caller).Agrees(snapshot)
}

// learnSeen takes note of a whole list that the upstream has given to the client.
// If that is not what the feed was given, the feed finds out what such a client
// is shown. What credentials of the client's own have brought says nothing of
// what clients like it are given without them.
func (x *search) learnSeen(page *message.Page, body *message.Body, snapshot *cache.Entry) {
	q := &x.question
	if q.detail != nil || q.kind == revision.Reads || q.variant == (cache.Variant{}) {
		return
	}
	if f := x.backend.Feeds.Of(q.revision); q.record != nil && (f == nil || !x.mayShare(f)) {
		return
	}
	if page.NextCursor != nil {
		if q.record != nil {
			q.record.SeePages(q.revision, q.kind)
		}
		x.askAs(q.record, snapshot) // the client may never ask for the rest
		return
	}
	seen := &cache.Seen{Items: body.ItemsDigest, Mark: q.mark, At: time.Now(), ByClient: true}
	if q.record == nil {
		if caller := x.caller(); caller != nil {
			caller.See(q.kind, seen)
		}
		return
	}
	if x.isOwn(seen) {
		return
	}
	q.record.See(q.revision, q.kind, seen, snapshot)
	if snapshot != nil && seen.Differs(snapshot) {
		x.askAs(q.record, snapshot)
	}
}

// isOwn reports whether a list that differs from what other clients of the variant
// are given is this session's own: it has seen a notice about it.
func (x *search) isOwn(seen *cache.Seen) bool {
	q := &x.question
	caller := x.caller()
	if x.session == "" || caller == nil || caller.NoticeSeen(q.kind) == nil {
		return false
	}
	known := q.record.Seen(q.revision, q.kind)
	return known != nil && known.Mark.SameEpoch(seen.Mark) && known.Items != seen.Items
}

// askAs has the feed ask as a client of a variant, in the background.
func (x *search) askAs(r *variant.Record, snapshot *cache.Entry) {
	q := &x.question
	if r == nil || snapshot == nil || r.Hopeless(q.revision, q.kind, q.mark) {
		return
	}
	if f := x.backend.Feeds.Of(q.revision); f != nil {
		f.Demand(q.kind, r)
	}
}
