package feed

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// singleSession remembers how many sessions a legacy upstream takes at a time. Some upstreams take
// one only: they refuse a further initialize, or end the session before it (dynatrace-mcp#134,
// mcp-discord#41, qmd#286). With such an upstream the feeds give way to clients, and all feeds
// share the one session. Once a client's session and a feed's have lived beside each other, the
// upstream counts as one that takes several.
type singleSession struct {
	mu     sync.Mutex
	shared bool // there is room for more than one
	single bool // there is not
	// holder is the session that a client has opened last, "" once the client has ended
	// it: one whose session is lost opens another at once. It was opened between sent and
	// opened.
	holder       string
	sent, opened time.Time
	// feed is the one that has the only session, or is about to open it; nil if none does.
	feed *Feed
	// giving is true while a client opens a session again, after the feeds have given way.
	// checking is the feed that finds out whether a client's session has ended its own. No feed
	// opens a session meanwhile.
	giving   bool
	checking *Feed
	// lost is when a feed last noticed that its session had ended.
	lost time.Time
	// left is when a client has ended its session, or a feed's has ended: a client that is
	// about to open its own may have done that.
	left time.Time
	// notBefore is when a feed may give way again, after it was in vain.
	notBefore time.Time
	changed   chan struct{} // closed when any of that changes; nil if nobody waits
}

// change calls how, which changes s, and wakes the feeds that wait for a change.
func (s *singleSession) change(how func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	how()
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// take lets a feed open a session, or returns a channel that is closed when the feed has to try
// again. If pause is above 0, the feed tries again after that, too. single is true if the feed has
// to wait because the upstream takes one session only.
func (s *singleSession) take(f *Feed) (changed <-chan struct{}, pause time.Duration, single bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.single {
		pause = leftPause - time.Since(s.left)
		single = s.holder != "" || s.feed != nil && s.feed != f || pause > 0
	}
	if !single && !s.giving && s.checking == nil {
		s.feed = f
		return nil, 0, false
	}
	return s.next(), pause, single
}

// next returns a channel that is closed at the next change. The caller holds s.mu.
func (s *singleSession) next() <-chan struct{} {
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return s.changed
}

// leave notes that a feed's session has ended.
func (s *singleSession) leave(f *Feed) {
	s.change(func() {
		if s.feed == f {
			s.feed, s.left = nil, time.Now()
		}
		s.checked(f)
	})
}

// checked records that a feed does not find out anything any more. The caller holds s.mu.
func (s *singleSession) checked(f *Feed) {
	if s.checking == f {
		s.checking = nil
	}
}

// awaitSingleSession waits until a feed may open a session.
func (f *Feed) awaitSingleSession(ctx context.Context) error {
	for f.revision.Era() == revision.Legacy {
		changed, pause, single := f.group.single.take(f)
		if changed == nil {
			break
		}
		if single {
			f.yielding()
		}
		var over <-chan time.Time
		if pause > 0 {
			over = time.After(pause)
		}
		select {
		case <-changed:
		case <-over:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// leftPause is how long after the end of a session no feed opens the only one: a client may
// come back, or be about to take it.
const leftPause = 2 * time.Second

// yielding enters that state.
func (f *Feed) yielding() {
	f.changing.Lock()
	defer f.changing.Unlock()
	f.suspected.Store(0) // the upstream has not been restarted
	f.setState(Yielding, nil)
}

// gaveWay finds out whether a session that was opened at that time has ended for a
// client's.
func (f *Feed) gaveWay(err error, opened time.Time) {
	yielded := errors.Is(err, errYielded)
	noticed := time.Now()
	if suspected := f.suspected.Load(); suspected != 0 {
		noticed = time.Unix(0, suspected)
	}
	f.group.single.change(func() {
		f.group.single.checked(f)
		if yielded || client.Refused(err) { // a refused account says nothing of sessions
			return
		}
		f.group.single.lost = noticed
		if f.group.single.opened.After(opened) {
			f.group.conclude()
		}
	})
}

// conclude finds out whether a session of a feed was lost for the client's that was opened
// last. If that was noticed before the client came, the upstream was restarted. Where one
// session takes the place of another, those of other clients are gone, too. The caller
// holds the mu of g.single.
func (g *Group) conclude() {
	s := &g.single
	if !s.single && !s.shared && s.holder != "" && !s.lost.Before(s.sent) {
		s.single = true
		g.logger.Load().Warn("the upstream takes one session at a time: the feed gives way to clients")
	}
	if s.single {
		g.lose()
	}
}

// trusted records that a feed's session has answered a request that was sent at that time.
func (s *singleSession) trusted(asked time.Time) {
	s.change(func() {
		if s.holder != "" && asked.After(s.opened) {
			s.shared, s.single = true, false
		}
	})
}

// errYielded says that the feed has ended its session to make room for a client's.
var errYielded = errors.New("the upstream takes one session at a time, and a client has it")

// ClientOpened tells the feeds that a client has opened a session, by an initialize that
// was sent at that time.
func (g *Group) ClientOpened(session string, sent time.Time) {
	if session == "" {
		return
	}
	f, check := g.withSession(), false
	g.single.change(func() {
		s := &g.single
		s.holder, s.sent, s.opened = session, sent, time.Now()
		if s.giving {
			s.giving, s.lost = false, s.opened
		}
		g.conclude()
		if check = f != nil && !s.shared && s.checking == nil; check {
			s.checking = f
		}
	})
	if check && !f.checkSession() {
		g.single.change(func() { g.single.checked(f) })
	}
}

// checkSession finds out, in the background, whether the feed still has its session. It
// returns false if it has none.
func (f *Feed) checkSession() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.conn
	if c == nil {
		return false
	}
	f.background.Go(func() {
		defer func() { _ = recover() }() // then the end of the session shows it
		asked := time.Now()
		switch alive, lost := isAlive(c.ctx, c.Session); {
		case lost != nil:
			c.end(lost)
			return
		case alive:
			f.trust(asked)
		case c.ctx.Err() != nil:
			return // gaveWay finds out why the connection has ended
		}
		f.group.single.change(func() { f.group.single.checked(f) })
	})
	return true
}

// ClientClosed tells the feeds that a client has ended its session.
func (g *Group) ClientClosed(session string) {
	g.single.change(func() {
		if g.single.holder == session {
			g.single.holder, g.single.left = "", time.Now()
		}
	})
}

// withSession returns a feed that has a session, or nil.
func (g *Group) withSession() *Feed {
	for _, f := range g.All() {
		if f.hasSession() {
			return f
		}
	}
	return nil
}

// hasSession reports whether the feed has a session that the upstream knows: a modern one
// never has.
func (f *Feed) hasSession() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.conn != nil && f.conn.HasID()
}

// MayBlockClients reports whether a client may be refused a session because a feed has one,
// or is opening one.
func (g *Group) MayBlockClients() bool {
	g.single.mu.Lock()
	f := g.single.feed
	open := !g.single.shared && !g.single.giving && !time.Now().Before(g.single.notBefore)
	g.single.mu.Unlock()
	return open && f != nil && (f.hasSession() || f.isOpening())
}

// isOpening reports whether the feed has no session yet.
func (f *Feed) isOpening() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.conn == nil
}

// vainFor is how long no feed gives way again after that did not help.
const vainFor = time.Minute

// GiveWay ends the sessions of all feeds, since a client was refused one. The client's
// initialize is then to be sent again, and done to be called after that.
func (g *Group) GiveWay(ctx context.Context) (done func()) {
	g.single.change(func() { g.single.giving = true })
	g.awaitOpening(ctx)
	for _, f := range g.All() {
		f.giveWay(ctx)
	}
	return func() {
		g.single.change(func() {
			if g.single.giving { // nobody has opened a session
				g.single.giving, g.single.notBefore = false, time.Now().Add(vainFor)
			}
		})
	}
}

// openingTimeout is how long a client waits for a feed that is opening a session.
const openingTimeout = 5 * time.Second

// awaitOpening waits until no feed is opening a session: one that is given up might be
// open for ever.
func (g *Group) awaitOpening(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, openingTimeout)
	defer cancel()
	for ctx.Err() == nil {
		g.single.mu.Lock()
		f, changed := g.single.feed, g.single.next()
		g.single.mu.Unlock()
		if f == nil || !f.isOpening() {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// giveWay ends the feed's session, if the upstream has given it one.
func (f *Feed) giveWay(ctx context.Context) {
	f.mu.Lock()
	c := f.conn
	f.mu.Unlock()
	if c == nil || !c.HasID() {
		return
	}
	c.end(errYielded)
	select {
	case <-c.ended:
	case <-ctx.Done():
	}
}
