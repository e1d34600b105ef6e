package exchange

import (
	"io"
	"net/http"
	"regexp"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/landing"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/sse"
)

// pass hands a request for another path than the endpoint's to the upstream, unless
// its origin is refused. A server may serve MCP there too, so refusals, ends of
// sessions and change notices count. Nobody is admitted by it, and nothing is kept.
func (e *Endpoint) pass(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if refusal := e.Settings.Origins.RefusesElsewhere(r, e.Settings.LendsCredentials); refusal.Reason != "" {
		return e.refuse(w, refusal)
	}
	x := e.exchange(w, r)
	defer x.in.Release()
	x.context = x.identify()
	x.elsewhere = true
	if done, err := x.guard(next); done {
		return err
	}
	fw := forwarding{exchange: x, next: next}
	return fw.filtered(fw.lookOn)
}

// lookOn hands on a request for another path, and learns from the answer.
func (fw *forwarding) lookOn() error {
	fw.in.Body.Replay(fw.r)
	o := &onlooker{filtered: fw.filter != nil, below: fw.below(), learner: learner{exchange: fw.exchange}}
	if fw.r.Method == http.MethodDelete {
		o.learner.endSessions()
	}
	if o.learner.mcp = landing.SpeaksMCP(fw.r.Header); o.learner.mcp {
		askPlain(fw.r.Header)
		if fw.r.Method == http.MethodPost {
			fw.endpoint.Warnings.Warn("MCP requests arrive at another path than the endpoint ("+fw.endpoint.Settings.Path+"), and are passed on without a look into the cache; "+
				"if that is the endpoint, name it in the upstream URL or in the option endpoint", "path", shownPath(fw.r.URL.Path))
		}
	}
	defer o.learner.close() // the upstream's handler may abort with a panic
	err := fw.backend.Upstream.ServeHTTP(o, fw.r, fw.next)
	o.learner.finish(err)
	return err
}

// pathWords are what paths of MCP endpoints are usually made of.
var pathWords = regexp.MustCompile(`^(v\d|api|mcp|sse|http|https|stream|streamable|message|messages|server|servers|public|rpc)?$`)

// shownPath returns a path as the operator is told of it, with "…" in the place of each part that is none of the
// usual words: some services have a caller's key in the path, such as SerpApi's /KEY/mcp.
func shownPath(path string) string {
	parts := strings.Split(path, "/")
	for i, part := range parts {
		if !pathWords.MatchString(part) {
			parts[i] = "…"
		}
	}
	return strings.Join(parts, "/")
}

// beginElsewhere is called with the header of an answer from another path than the
// endpoint's. An answer that is not for an MCP client and cannot be read, such as a
// compressed file of a site, is not taken for a notice.
func (l *learner) beginElsewhere(status int, header http.Header) {
	l.watcher.Format = sse.FormatOf(l.mcp && l.r.Method == http.MethodGet, header["Content-Type"], header["Content-Encoding"])
	if !l.mcp && l.watcher.Format == sse.Unreadable {
		l.watcher.Format = sse.Unwatched
	}
	if l.sessions != nil && l.r.Method == http.MethodPost && status == http.StatusOK {
		l.unjudged = header // it may say that there is no such session
	}
}

// idle reports whether there is nothing to be learned from what follows.
func (l *learner) idle() bool {
	return l.record == nil && l.unjudged == nil && l.watcher.Format == sse.Unwatched
}

// onlooker is the response writer of a request for another path than the endpoint's.
// It changes nothing but the server's own address, and holds nothing back: it learns from
// bytes before it hands them on.
type onlooker struct {
	below       http.ResponseWriter
	filtered    bool // below is a sieve
	learner     learner
	wroteHeader bool
}

// Header implements [http.ResponseWriter].
func (o *onlooker) Header() http.Header { return o.below.Header() }

// WriteHeader implements [http.ResponseWriter].
func (o *onlooker) WriteHeader(status int) {
	if status >= http.StatusOK && !o.wroteHeader {
		o.wroteHeader = true
		o.learner.begin(status, o.below.Header())
		o.learner.giveAddress(status, o.below.Header())
	}
	o.below.WriteHeader(status)
}

// Write implements [io.Writer].
func (o *onlooker) Write(p []byte) (int, error) {
	if !o.wroteHeader {
		o.WriteHeader(http.StatusOK)
	}
	o.learner.read(p)
	return o.below.Write(p)
}

// ReadFrom implements [io.ReaderFrom], so that files can still be sent by sendfile.
func (o *onlooker) ReadFrom(r io.Reader) (int64, error) {
	if !o.wroteHeader {
		o.WriteHeader(http.StatusOK)
	}
	if o.learner.idle() && !o.filtered {
		return io.Copy(o.below, r)
	}
	return io.Copy(struct{ io.Writer }{o}, r)
}

// FlushError flushes what has been written. [http.ResponseController] calls it.
func (o *onlooker) FlushError() error {
	if !o.wroteHeader {
		o.WriteHeader(http.StatusOK)
	}
	return http.NewResponseController(o.below).Flush()
}

// Unwrap returns the writer below, for what [http.ResponseController] can do
// besides flushing.
func (o *onlooker) Unwrap() http.ResponseWriter { return o.below }

// Interface guards
var (
	_ http.ResponseWriter             = (*onlooker)(nil)
	_ io.ReaderFrom                   = (*onlooker)(nil)
	_ interface{ FlushError() error } = (*onlooker)(nil)
)
