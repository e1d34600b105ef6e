package exchange

import (
	"strings"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/admission"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/variant"
)

// none is how a client without capabilities describes them.
const none = "{}"

// findVariant finds out the variant of the client, for a search of its own.
func (x *exchange) findVariant(own *search, caller *admission.Caller) {
	own.resolve(caller, x.language())
	if !own.context.AsksLikeFeed() {
		own.resolveApart(x.backend.Identity.Request(x.r, x.placeholders()))
	}
}

// resolveApart makes the variant of the client one of those whose requests ask for something
// else than the feed. Nothing is known of it if the feed cannot ask the same.
func (x *search) resolveApart(asked client.Request, repeatable bool) {
	q := &x.question
	known := variant.Client{Capabilities: []byte(none)}
	isKnown := q.record != nil || q.variant == cache.Variant{}
	if q.record != nil {
		known = q.record.Client
	}
	q.record, q.repeatable = nil, repeatable
	if !isKnown || !repeatable {
		return
	}
	known.Request, known.Asked = asked, x.context.Asked()
	if q.record = x.backend.Apart.Learn(known); q.record == nil {
		return
	}
	q.variant = q.record.Key
	q.record.Meet(x.context)
}

// resolve finds out the variant of the client; language is its Accept-Language, ""
// if the upstream ignores that.
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

// resolveSession takes the variant from the initialize that opened the session.
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
		known := q.record.Client
		known.Language = language
		q.record = x.backend.Variants.Learn(known)
	}
	if q.record == nil {
		q.variant = x.backend.UnknownVariant("session", x.session)
		return
	}
	q.variant = q.record.Key
}

// language returns the Accept-Language of a request; "" if the upstream ignores it.
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

// seen returns which list the upstream last gave to a client of the variant, or nil.
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

// shares reports whether the upstream gives clients of the variant the list that
// the feed was given.
func (x *search) shares(snapshot *cache.Entry, caller *admission.Caller) bool {
	return x.question.variant == cache.Variant{} || x.seen(caller).Agrees(snapshot)
}

// learnSeen notes which list the upstream has given to the client. If the feed was
// given another, it fetches the list as a client of the variant. A list that
// belongs to credentials of the client's own says nothing about other clients.
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

// askAs has the feed fetch the list as a client of a variant, in the background.
func (x *search) askAs(r *variant.Record, snapshot *cache.Entry) {
	q := &x.question
	if r == nil || snapshot == nil || r.Hopeless(q.revision, q.kind, q.mark) {
		return
	}
	if f := x.backend.Feeds.Of(q.revision); f != nil {
		f.List(q.kind).Demand(r)
	}
}
