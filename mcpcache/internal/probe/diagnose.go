package probe

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/sse"
)

// lookTimeout is how long an answer may take when the endpoint is looked for
// elsewhere.
const lookTimeout = 3 * time.Second

// conclude says whether the server can be used, why not, and what follows.
func (x *examination) conclude(ctx context.Context) {
	r := x.report
	r.FailedEras = x.failedEras()
	if len(r.Eras) == 0 {
		r.Trouble = x.diagnose(ctx)
		return
	}
	if x.slash.Redirects() {
		u, _ := url.Parse(x.URL) // it has been parsed before
		r.RedirectsTo = twin(u)
	}
	var failed *List
	for _, e := range r.Eras {
		for _, l := range e.Lists {
			if l.Failure != "" && failed == nil {
				failed = l
			}
			r.Usable = r.Usable || l.Failure == "" && l.kind != revision.Discover
		}
	}
	if !r.Usable && failed != nil {
		r.Trouble = &Trouble{Code: "no_lists", Text: fmt.Sprintf(
			"%s speaks MCP but gives no list (%s: %s): look into the server's log", r.URL, failed.Kind, failed.Failure)}
	}
	r.Usable = r.Usable || failed == nil
	r.Findings = findings(r)
	if r.Usable {
		r.Caddyfile = caddyfile(r)
	}
}

// diagnose says why no conversation could be opened.
func (x *examination) diagnose(ctx context.Context) *Trouble {
	worst := x.troubleOf(x.decisive().err)
	if n := len(x.failures); n > 1 && !slices.ContainsFunc(x.failures, func(f failure) bool { return !isUnanswered(f.err) }) {
		worst.Text = fmt.Sprintf("%s did not answer within %s, asked once for each era (%s in all): see whether the server hangs, or give it more with --timeout",
			x.URL, x.Timeout, time.Duration(n)*x.Timeout)
	}
	if t := x.tryOtherEra(ctx); t != nil {
		return t
	}
	for _, f := range x.failures {
		t := x.troubleOf(f.err)
		switch t.Code {
		case "unauthorized", "forbidden", "redirect":
			return t
		}
	}
	switch worst.Code {
	case "wrong_path", "not_mcp":
		if t := x.lookElsewhere(ctx); t != nil {
			return t
		}
	}
	return worst
}

// isUnanswered reports whether err says that an answer did not come in its time.
func isUnanswered(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, errOutOfTime)
}

// tryOtherEra says so if the server speaks the era that was not asked for, and whether it
// is the only one.
func (x *examination) tryOtherEra(ctx context.Context) *Trouble {
	if len(x.Eras) != 1 || unreachable(x.failures[0].err) {
		return nil
	}
	asked, other := x.Eras[0], revision.LatestLegacy
	if asked == revision.Legacy {
		other = revision.LatestModern
	}
	c := x.conversation(other, x.Callers[0], noCapabilities)
	if c.open(ctx) != nil {
		return nil
	}
	c.close(ctx)
	if failed := x.report.FailedEras; len(failed) > 0 {
		return &Trouble{Code: failed[0].Code, Text: x.URL + " " + failed[0].Words()}
	}
	return &Trouble{Code: "era", Text: fmt.Sprintf("%s speaks the %s era only, not the %s one: check it without --era",
		x.URL, other.Era(), asked)}
}

// lookElsewhere looks for the older transport at the URL, and for an MCP
// server at other usual paths. It sends none of the caller's headers there.
func (x *examination) lookElsewhere(ctx context.Context) *Trouble {
	if x.isOldTransport(ctx, x.URL, x.Callers[0]) {
		return oldTransport(x.URL)
	}
	base, err := url.Parse(x.URL)
	if err != nil {
		return nil
	}
	old := ""
	for _, path := range []string{"/mcp", "/mcp/", "/", "/api/mcp", "/sse"} {
		if path == base.Path || ctx.Err() != nil {
			continue
		}
		candidate := url.URL{Scheme: base.Scheme, Host: base.Host, Path: path}
		c := x.conversation(revision.LatestLegacy, http.Header{}, noCapabilities)
		c.url, c.timeout = candidate.String(), min(x.Timeout, lookTimeout)
		if x.answersMCP(ctx, c) {
			return &Trouble{Code: "wrong_path", Text: fmt.Sprintf(
				"there is no MCP server at %s, but one answers at %s: use that URL", x.URL, c.url)}
		}
		if old == "" && path == "/sse" && x.isOldTransport(ctx, c.url, http.Header{}) {
			old = c.url
		}
	}
	if old != "" {
		return oldTransport(old)
	}
	return nil
}

// answersMCP reports whether a server of either era answers.
func (x *examination) answersMCP(ctx context.Context, c *conversation) bool {
	for _, r := range []revision.Revision{revision.LatestLegacy, revision.LatestModern} {
		c.revision = r
		if c.open(ctx) == nil {
			c.close(ctx)
			return true
		}
	}
	return false
}

func oldTransport(url string) *Trouble {
	return &Trouble{Code: "http_sse", Text: url + " is a server of the older transport with two endpoints (HTTP+SSE), " +
		"whose lists cannot be cached: have it speak Streamable HTTP, or put a bridge that does in front of it"}
}

// isOldTransport reports whether a stream begins as those of the older
// transport do: with the endpoint to post to.
func (x *examination) isOldTransport(ctx context.Context, url string, header http.Header) bool {
	ctx, cancel := context.WithTimeout(ctx, min(x.Timeout, lookTimeout))
	defer cancel()
	c := &client{http: x.http, header: header, slash: &x.slash}
	res, err := c.send(ctx, http.MethodGet, url, http.Header{"Accept": {"text/event-stream"}}, nil)
	if err != nil {
		return false
	}
	defer res.Body.Close()
	if a := c.newAnswer(res); a.status != http.StatusOK || a.media != "text/event-stream" {
		return false
	}
	event, err := sse.NewReader(res.Body, maxHead).Next()
	return err == nil && event.Name == "endpoint"
}
