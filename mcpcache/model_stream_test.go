package mcpcache

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// notice is a change notice, with what the upstream's lists were when it was
// sent.
type notice struct {
	id      int
	raw     []byte
	head    int // the length of raw up to the end of the method, which nobody knows before
	kinds   []revision.Kind
	views   map[view]int
	session map[sessionView]int
	// known are the instances of a fleet that are told what others are told.
	known map[*modelInstance]bool
}

// announcements are the notices, and what they concern.
var announcements = map[revision.Kind]struct {
	method string
	kinds  []revision.Kind
}{
	revision.Tools:             {"notifications/tools/list_changed", []revision.Kind{revision.Tools}},
	revision.Prompts:           {"notifications/prompts/list_changed", []revision.Kind{revision.Prompts}},
	revision.Resources:         {"notifications/resources/list_changed", []revision.Kind{revision.Resources, revision.ResourceTemplates}},
	revision.ResourceTemplates: {"notifications/resources/list_changed", []revision.Kind{revision.Resources, revision.ResourceTemplates}},
	revision.Reads:             {"notifications/resources/updated", []revision.Kind{revision.Reads}},
}

// announce makes the notice that kind k has changed. The caller holds the lock.
func (u *modelUpstream) announce(k revision.Kind) *notice {
	about := announcements[k]
	n := &notice{
		id: len(u.notices), kinds: about.kinds,
		views: make(map[view]int), session: make(map[sessionView]int),
	}
	for _, k := range about.kinds {
		for _, ctx := range modelContexts {
			n.views[view{k, ctx}] = u.versions[view{k, ctx}]
		}
		for id, s := range u.sessions {
			n.session[sessionView{k, id}] = s.version[k]
		}
	}
	method := about.method
	if u.w.draw(4, "escape", n.id) == 0 {
		method = strings.ReplaceAll(strings.ReplaceAll(method, "/", `\/`), "_", `\u005f`)
	}
	n.raw = fmt.Appendf(nil, `{"jsonrpc":"2.0","params":{"notice":%d,"uri":"file:///r"},"method":"%s"`, n.id, method)
	n.head = len(n.raw)
	n.raw = append(n.raw, '}')
	n.known = u.w.together()
	u.w.stir(n.kinds...)
	u.notices = append(u.notices, n)
	return n
}

// event is the notice as an event of a stream.
func (n *notice) event() []byte { return fmt.Appendf(nil, "event: message\ndata: %s\n\n", n.raw) }

// passed reports whether the bytes of a stream have the notice's method in full.
func (n *notice) passed(stream []byte) bool { return bytes.Contains(stream, n.raw[:n.head]) }

// modelStream is an event stream that is there to last.
type modelStream struct {
	a      *arrival
	up     *modelUpstream
	begun  bool // its beginning is written
	events chan *notice
	ended  chan struct{}
}

func (u *modelUpstream) openStream(a *arrival) *modelStream {
	s := &modelStream{a: a, up: u, events: make(chan *notice, 64), ended: make(chan struct{})}
	u.streams = append(u.streams, s)
	return s
}

// tell sends a notice on the stream, if there is room.
func (s *modelStream) tell(n *notice) {
	s.up.w.confirmsAll(n)
	select {
	case s.events <- n:
	default:
	}
}

func (s *modelStream) end() {
	select {
	case <-s.ended:
	default:
		close(s.ended)
	}
}

// run writes events until the stream or the request ends.
func (s *modelStream) run(rw http.ResponseWriter, r *http.Request, p *reply) error {
	w := p.up.w
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.up.streams = slices.DeleteFunc(w.up.streams, func(other *modelStream) bool { return other == s })
	}()
	rw.Header().Set("Content-Type", "text/event-stream")
	p.begin(rw, http.StatusOK)
	hello := []byte(": hello\n\n")
	if s.a.method == "subscriptions/listen" {
		hello = []byte(`data: {"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{}}` + "\n\n")
	}
	if err := p.write(rw, hello); err != nil {
		return err
	}
	if s.a.resumed != "" {
		w.mu.Lock()
		replayed := p.up.replay(s.a)
		w.mu.Unlock()
		for _, piece := range w.split(replayed, "replayed", s.a.serial) {
			if err := p.write(rw, piece); err != nil {
				return err
			}
		}
	}
	w.mu.Lock()
	s.begun = true
	w.mu.Unlock()
	for {
		select {
		case n := <-s.events:
			for _, piece := range w.split(n.event(), n.id, s.a.serial) {
				if err := p.write(rw, piece); err != nil {
					return err
				}
			}
			if s.a.feed() {
				w.mu.Lock()
				s.a.at.heard = append(s.a.at.heard, n)
				w.mu.Unlock()
			}
		case <-s.ended:
			return nil
		case <-r.Context().Done():
			return nil
		}
	}
}
