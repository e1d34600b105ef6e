package exchange

import (
	"errors"
	"net/http"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/jsonrpc"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/landing"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/policy"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/responsefilter"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// openFilter returns the filter that takes hidden items out of the upstream's answer. The answer needs one
// if it may have a list in it. A GET stream may have one, since a resumed stream repeats answers. An answer
// also needs a filter if it may say that a resource has changed, as any event stream may. Otherwise
// openFilter returns nil.
func (fw *forwarding) openFilter() *responsefilter.Writer {
	view := fw.view
	if view == nil {
		return nil
	}
	modern := fw.revision().Era() == revision.Modern
	stream, lists := fw.r.Method == http.MethodGet && view.RestrictsAny(), fw.answersList(modern)
	told := view.Restricts(revision.Resources) && (!fw.elsewhere || landing.SpeaksMCP(fw.r.Header))
	if !stream && !lists && !told {
		return nil
	}
	askPlain(fw.r.Header)
	o := responsefilter.Options{
		Filter: message.Filter{
			Keep:    view.Shows,
			Tells:   func(uri string) bool { return view.Decide(revision.Resources, policy.Item{Name: uri}).Allowed },
			Private: view.Personal, AddScope: modern,
		}.Apply,
		Whole: lists, Get: stream && !fw.elsewhere, Lenient: !stream && !lists,
		Limit: fw.backend.Settings.Feed.MaxList, Memory: fw.backend.Cache.Work(),
	}
	if o.Lenient {
		o.Glance = responsefilter.Notice
	}
	return responsefilter.New(fw.w, o)
}

// answersList reports whether the answer may have a list in it that rules speak of. In the
// modern era what others may not see must say so of itself, also what was read.
func (fw *forwarding) answersList(modern bool) bool {
	k, ok := revision.KindOf(fw.in.Method)
	return fw.wantsList || ok && (k != revision.Reads && fw.view.Restricts(k) || modern && fw.view.Personal(k))
}

// unpassable reports whether it is known that the upstream's answer cannot be passed
// on, and nothing of it has been: what comes is dropped.
func (fw *forwarding) unpassable() bool {
	return fw.filter != nil && fw.filter.Failed() && !fw.filter.Started()
}

// closeFilter ends the filtering of an answer. err is the error of the answer so far.
func (fw *forwarding) closeFilter(err error) error {
	s := fw.filter
	if s == nil {
		return err
	}
	failed := s.Failed()
	finished := s.Finish()
	if finished == nil || err != nil && !failed {
		return err
	}
	if !errors.Is(finished, responsefilter.ErrTooLarge) && !errors.Is(finished, responsefilter.ErrUnreadable) || s.Started() {
		return errors.Join(err, finished)
	}
	return fw.unfiltered(finished.Error())
}

// unfiltered answers with an error in the place of a list that could not be filtered.
func (x *exchange) unfiltered(text string) error {
	h := x.w.Header()
	for _, name := range [...]string{"Content-Length", "Content-Encoding", "Etag"} {
		delete(h, name)
	}
	return x.writeProblem(jsonrpc.Failed(http.StatusBadGateway, text), x.in.Message.ID)
}
