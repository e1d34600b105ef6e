package exchange

import (
	"errors"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/inbound"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/jsonrpc"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/outcome"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/policy"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/site"
)

// guard finds out what a request names, and whether its caller may see that.
type guard struct {
	*exchange

	next caddyhttp.Handler
	// letIn says that the upstream has given this caller a list that was asked for here, turnedAway that
	// it has refused to, silent that it has not answered in time.
	letIn, turnedAway, silent bool
}

// guard refuses a request that names something which its caller may not see, or of
// which it is not certain what it names. done says that it has been answered; if not,
// it may be forwarded.
func (x *exchange) guard(next caddyhttp.Handler) (done bool, err error) {
	switch {
	case !x.view.RestrictsAny():
		return false, nil
	case x.r.Method == http.MethodConnect:
		return true, x.deny(jsonrpc.Refused(http.StatusNotImplemented, "no other protocol is spoken here: what a request names has to be certain"), nil)
	case !carriesMessage(x.r):
		return false, nil
	}
	x.in.Share = x.backend.Cache.Work().Share()
	g := guard{exchange: x, next: next}
	return g.check()
}

// check reads the request, and refuses it if it has to.
func (g *guard) check() (done bool, err error) {
	if passed, err := g.askBeforeLong(); passed || err != nil {
		return true, err
	}
	if g.elsewhere && !g.mayBecomeMessage() {
		return false, nil
	}
	d, err := g.readCall()
	if err != nil {
		return true, err
	}
	if d == nil && (g.elsewhere && !g.mayBeMessage() || g.isEmpty()) {
		return false, nil
	}
	var found []message.Naming
	if d == nil {
		found, d = g.read()
	}
	if d == nil {
		d, err = g.judgeCall(found)
	}
	passed := false
	if d != nil && err == nil {
		passed, err = g.askDoor(found)
	}
	switch {
	case err != nil:
		return true, g.unasked(err)
	case d == nil || passed:
		return passed, nil
	}
	return true, g.deny(d, found)
}

// unasked ends an exchange in which the upstream could not be asked what has to be
// known first.
func (g *guard) unasked(err error) error {
	g.outcome, g.reason = outcome.Bypass, bypassAdmission
	if g.elsewhere {
		return err
	}
	h := g.w.Header()
	h["Cache-Status"] = append(slices.Clip(h["Cache-Status"]), forwarded(g.endpoint.status, bypassAdmission, false))
	return unanswered{err}
}

// askBeforeLong reads the beginning of a body. If there is more of it, which takes of
// the memory that is for all, the caller has to be let in by the upstream first: passed
// says that its refusal has been passed on.
func (g *guard) askBeforeLong() (passed bool, err error) {
	s := &g.endpoint.Settings
	if g.r.ContentLength > s.MaxCall && !g.elsewhere {
		return false, nil
	}
	if err := g.in.ReadBeginning(g.r, min(s.MaxCall, s.MaxRequest)); err != nil {
		return false, site.Unreadable(err)
	}
	if g.in.Body.Whole || g.elsewhere {
		return false, nil
	}
	if passed, err = g.askDoor(nil); err != nil {
		return false, g.unasked(err)
	}
	return passed, nil
}

// readCall reads the whole body, up to max_call.
func (g *guard) readCall() (*jsonrpc.Problem, error) {
	switch d, err := g.in.ReadRest(g.w, g.r, g.endpoint.Settings.MaxCall); {
	case err != nil:
		return nil, site.Unreadable(err)
	case d == inbound.NoRoom:
		g.w.Header()["Retry-After"] = []string{"1"}
		return jsonrpc.Refused(http.StatusServiceUnavailable, "there is no memory left to find out what the request names"), nil
	case d == inbound.TooLarge:
		return jsonrpc.Refused(http.StatusRequestEntityTooLarge, "the request is larger than max_call, and what it names has to be certain"), nil
	}
	return nil, nil
}

// isEmpty reports whether a request that need not have a body turns out to have none,
// although its length was not given.
func (g *guard) isEmpty() bool { return g.r.Method != http.MethodPost && len(g.in.Body.Bytes) == 0 }

// mayBecomeMessage reports whether a request for another path than the endpoint may be one
// of MCP, by its header and the beginning of its body: what else a server has there, such
// as uploads, is passed on as it comes.
func (g *guard) mayBecomeMessage() bool {
	return g.isOddJSON() || message.MayBecomeJSON(g.in.Body.Bytes)
}

// mayBeMessage reports whether a request for another path than the endpoint may be
// one of MCP: servers take several paths for their endpoint, or have one for the
// transport of 2024-11-05 too. What is for a server's other routes, such as those of
// OAuth, is no message.
func (g *guard) mayBeMessage() bool { return g.isOddJSON() || message.MayBeRPC(g.in.Body.Bytes) }

// isOddJSON reports whether a body may be JSON in another form than it stands there.
func (g *guard) isOddJSON() bool {
	if g.r.Header["Content-Encoding"] != nil {
		return true
	}
	media, _, _ := mime.ParseMediaType(g.r.Header.Get("Content-Type"))
	return strings.HasSuffix(media, "json") && !inbound.PlainJSON(g.r.Header)
}

// read finds out what the messages of a request name.
func (g *guard) read() ([]message.Naming, *jsonrpc.Problem) {
	if !inbound.PlainJSON(g.r.Header) {
		return nil, jsonrpc.Refused(http.StatusUnsupportedMediaType, "the request is not plain JSON in UTF-8, and what it names has to be certain")
	}
	found, err := message.ParseNaming(g.in.Body.Bytes)
	switch {
	case errors.Is(err, message.ErrMethod):
		return found, jsonrpc.NoMethod()
	case err != nil:
		return found, jsonrpc.Refused(http.StatusBadRequest, err.Error()+": what a request names has to be certain")
	}
	if inbound.Contradicts(g.r.Header, found) {
		return found, jsonrpc.Invalid(jsonrpc.HeaderMismatch, "a header says something else than the message")
	}
	return found, nil
}

// judgeCall returns the refusal of the first item that the caller may not see, or nil.
func (g *guard) judgeCall(found []message.Naming) (*jsonrpc.Problem, error) {
	for _, n := range found {
		g.wantsList = g.wantsList || strings.HasSuffix(n.Method, "/list")
		for _, item := range n.Items {
			shown, err := g.maySee(item)
			missing, none := errors.AsType[noListError](err)
			switch {
			case none:
				return jsonrpc.Failed(http.StatusBadGateway, missing.Error()), nil
			case err != nil:
				return nil, err
			case !shown:
				return jsonrpc.Unknown(g.revision().Era(), item.Kind, item.Name), nil
			}
		}
	}
	return nil, nil
}

// maySee reports whether the caller may see an item. Where rules need that, it has to be in
// the caller's list, as that is shown: of others nothing is known.
func (g *guard) maySee(n message.Named) (bool, error) {
	if g.view.NeedsList(n.Kind) {
		return g.isListed(n)
	}
	return g.view.Decide(n.Kind, policy.Item{Name: n.Name}).Allowed, nil
}

// carriesMessage reports whether a request may carry a message: some servers let a
// header say that it has another method.
func carriesMessage(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodDelete, http.MethodTrace:
		return r.ContentLength != 0
	}
	return true
}
