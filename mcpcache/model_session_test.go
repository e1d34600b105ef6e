package mcpcache

import (
	"fmt"
	"strings"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// modelSession is a legacy session.
type modelSession struct {
	id, ctx, rev string
	at           *modelInstance // through which it was opened
	client       string         // what its lists depend on, if lists depend on clients
	as           string         // the client as which a feed asks; "" for the feed itself
	feed         bool
	ready        bool                  // it has lists: its client has said that it is there
	extra        map[revision.Kind]int // how many items of its own
	version      map[revision.Kind]int // of those
}

func (u *modelUpstream) initialize(a *arrival, reply *reply) {
	r := revision.Parse(a.asked)
	if r.Era() == revision.Modern {
		r = revision.LatestLegacy
	}
	a.rev = r.String()
	if u.w.cfg.sessions {
		u.opened++
		id := fmt.Sprintf("s%d", u.opened)
		s := &modelSession{
			id: id, at: a.at, ctx: a.ctx, rev: a.rev, client: a.caps, feed: a.feed(), ready: !u.w.cfg.late,
			extra: make(map[revision.Kind]int), version: make(map[revision.Kind]int),
		}
		if s.as = a.caps; a.client != "mcp_cache" {
			s.as += "@" + a.client
		}
		if u.w.cfg.variesNames {
			s.client += "@" + a.client
		}
		u.sessions[id] = s
		u.w.known.clients[id] = s.client
		reply.session, a.session = id, id
	}
	reply.result(fmt.Appendf(nil, `{"protocolVersion":%q,"capabilities":%s,"serverInfo":{"name":"m","version":"1"}}`,
		r, u.capabilities()))
}

// clientOf is what the lists depend on that a request is given.
func (u *modelUpstream) clientOf(a *arrival) string {
	if s := u.sessions[a.session]; s != nil {
		return s.client
	}
	return a.caps
}

// askedAs is the client as which a feed asks, whatever lists depend on; "" for the feed itself.
func (u *modelUpstream) askedAs(a *arrival) string {
	if a.shown() {
		return a.ctx
	}
	if s := u.sessions[a.session]; s != nil {
		return s.as
	}
	return a.caps
}

// clientOf is what the lists depend on that a client is given.
func (w *world) clientOf(x *call) string {
	switch {
	case x.c.modern():
		return strings.TrimPrefix(x.c.caps, "{}")
	case x.session != "":
		return w.known.clients[x.session]
	}
	return ""
}

// notified takes a notification. A server may have the lists of a session only
// once its client has said that it is there, and tell it so.
func (u *modelUpstream) notified(a *arrival) {
	s := u.sessions[a.session]
	if s == nil || s.ready || a.method != "notifications/initialized" {
		return
	}
	s.ready = true
	if u.w.cfg.silent || a.feed() {
		return
	}
	n := u.announce(revision.Tools)
	for _, stream := range u.streams {
		if stream.a.session == s.id {
			stream.tell(n)
		}
	}
}

// call runs a tool that changes lists: those of everybody, or of its session.
func (u *modelUpstream) call(a *arrival, reply *reply) {
	tool, about, _ := strings.Cut(a.name, ":")
	k, _ := revision.KindOf(about)
	switch session := u.sessions[a.session]; {
	case tool == "change":
		u.change(k, modelContexts)
		reply.changes(k)
	case strings.HasPrefix(tool, "tools-"): // it changes nothing
		reply.result([]byte(`{"content":[]}`))
		return
	case tool == "none", session == nil:
		reply.fail(-32602, "unknown tool")
		return
	case tool == "login":
		session.extra[k]++
		session.version[k]++
	case tool == "logout":
		session.extra[k] = 0
		session.version[k]++
	}
	reply.result([]byte(`{"content":[]}`))
	if !a.modern() && !u.w.cfg.silent && u.w.draw(2, "notice", a.serial) == 0 {
		n := u.announce(k)
		u.w.confirmsAll(n)
		reply.before = append(reply.before, n)
	}
}

// endSession ends a session, and its streams.
func (u *modelUpstream) endSession(id string) {
	delete(u.sessions, id)
	for _, s := range u.streams {
		if s.a.session == id && id != "" {
			s.end()
		}
	}
}

// loseSession is endSession for a session that nobody wanted to end.
func (u *modelUpstream) loseSession(id string) {
	s := u.sessions[id]
	if s == nil {
		return
	}
	s.at.truth.loses(s)
	for _, stream := range u.streams {
		if s.feed && s.as == "" && stream.a.session == id && stream.begun {
			s.at.noticedLoss = true
		}
	}
	u.endSession(id)
}

// loseSessions is the upstream starting anew: it knows no sessions any more, and
// all streams end.
func (u *modelUpstream) loseSessions() {
	for id := range u.sessions {
		u.loseSession(id)
	}
	for _, s := range u.streams {
		s.end()
	}
}
