package exchange

import (
	"errors"
	"net/http"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/jsonrpc"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/landing"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/policy"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/sieve"
)

// screen is what an exchange needs where something may be hidden from its caller. A hit
// of a list does without.
type screen struct {
	sieve *sieve.Writer // of the upstream's answer; nil: it goes as it is
	// lists says that some message of the request asks for a list.
	lists bool
	// elsewhere says that the request is for another path than the endpoint's.
	elsewhere bool
	// letIn says that the upstream has given this caller a list that we have asked for,
	// turnedAway that it has refused to, silent that it has not answered in time.
	letIn, turnedAway, silent bool
	// client and request are the client's, while the upstream is asked for a list in the
	// place of what the client has asked for; nil otherwise.
	client  http.ResponseWriter
	request *http.Request
}

// behindScreen returns the exchange's screen.
func (x *exchange) behindScreen() *screen {
	if x.screen == nil {
		x.screen, x.in.Share = new(screen), x.backend.Cache.Work().Share()
	}
	return x.screen
}

// below is the writer that an answer of the upstream goes to.
func (x *exchange) below() http.ResponseWriter {
	if x.screen != nil && x.screen.sieve != nil {
		return x.screen.sieve
	}
	return x.w
}

// openSieve has what the caller may not see taken out of the answer that the upstream
// is about to give, if it may have a list in it (a GET stream may: one that is
// resumed repeats answers), or tell of a resource that has changed: any event stream
// may do that. What it returns has to be called at the end of the exchange.
func (x *exchange) openSieve() (closing func()) {
	view := x.view
	if view == nil {
		return func() {}
	}
	s := x.behindScreen()
	modern := x.revision().Era() == revision.Modern
	stream, lists := x.r.Method == http.MethodGet && view.RestrictsAny(), x.answersList(modern)
	told := view.Restricts(revision.Resources) && (!s.elsewhere || landing.SpeaksMCP(x.r.Header))
	if !stream && !lists && !told {
		return func() {}
	}
	askPlain(x.r.Header)
	o := sieve.Options{
		Filter: message.Filter{
			Keep:    view.Shows,
			Tells:   func(uri string) bool { return view.Decide(revision.Resources, policy.Item{Name: uri}).Allowed },
			Private: view.Personal, AddScope: modern,
		}.Apply,
		Whole: lists, Get: stream && !s.elsewhere, Lenient: !stream && !lists,
		Limit: x.backend.Settings.Feed.MaxList, Memory: x.backend.Cache.Work(),
	}
	if o.Lenient {
		o.Glance = sieve.Notice
	}
	opened := sieve.New(x.w, o)
	s.sieve = opened
	return opened.Close
}

// answersList reports whether the answer may have a list in it that rules speak of. In the
// modern era what others may not see must say so of itself, also what was read.
func (x *exchange) answersList(modern bool) bool {
	k, ok := revision.KindOf(x.in.Method)
	return x.screen.lists || ok && (k != revision.Reads && x.view.Restricts(k) || modern && x.view.Personal(k))
}

// unpassable reports whether it is known that the upstream's answer cannot be passed
// on, and nothing of it has been: what comes is dropped.
func (x *exchange) unpassable() bool {
	s := x.screen
	return s != nil && s.sieve != nil && s.sieve.Failed() && !s.sieve.Started()
}

// closeSieve ends the filtering of an answer. err is what answering has come to. Of a
// request that was forwarded only after it had waited for another's it is called twice,
// and has an effect once.
func (x *exchange) closeSieve(err error) error {
	if x.screen == nil || x.screen.sieve == nil {
		return err
	}
	s := x.screen.sieve
	x.screen.sieve = nil
	failed := s.Failed()
	finished := s.Finish()
	if finished == nil || err != nil && !failed {
		return err
	}
	if !errors.Is(finished, sieve.ErrTooLarge) && !errors.Is(finished, sieve.ErrUnreadable) || s.Started() {
		return errors.Join(err, finished)
	}
	return x.unfiltered(finished.Error())
}

// unfiltered answers in the place of a list of which it is not certain what is in it.
func (x *exchange) unfiltered(text string) error {
	h := x.w.Header()
	for _, name := range [...]string{"Content-Length", "Content-Encoding", "Etag"} {
		delete(h, name)
	}
	return x.writeProblem(jsonrpc.Failed(http.StatusBadGateway, text), x.in.Message.ID)
}
