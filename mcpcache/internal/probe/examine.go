package probe

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/http/cookiejar"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/outage"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/redirect"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// examination is one run.
type examination struct {
	Options

	http     *http.Client
	secrets  [][]byte
	slash    redirect.Slash
	oddities oddities
	report   *Report
	failures []failure // to open a conversation, that of the newer era first
}

// Run examines a server. Its error is about the options only; what is wrong
// with the server is the report's Trouble.
func Run(ctx context.Context, options Options) (*Report, error) {
	u, err := ParseURL(options.URL)
	if err != nil {
		return nil, err
	}
	options.URL = u.String()
	if len(options.Callers) == 0 {
		options.Callers = []http.Header{{}}
	}
	if len(options.Eras) == 0 {
		// A legacy server may end over a question that it does not know.
		options.Eras = []revision.Era{revision.Legacy, revision.Modern}
	}
	if options.patience == 0 {
		options.patience = patience
	}
	var connections atomic.Int64
	x := &examination{Options: options, http: newHTTPClient(&connections), secrets: secretsOf(options.Callers), report: &Report{
		URL: options.URL, Revisions: []string{}, Eras: []*Era{}, Findings: []Finding{},
	}}
	defer x.http.CloseIdleConnections()
	x.report.Access = accessOf(options.Callers)
	ctx, cancel := context.WithTimeoutCause(ctx, options.Total, errOutOfTime)
	defer cancel()
	for _, era := range options.Eras {
		if !x.examine(ctx, era) {
			break
		}
	}
	slices.Reverse(x.report.Eras) // the newer one is shown first
	slices.Reverse(x.failures)
	x.trySeat(ctx)
	x.report.Cut = ctx.Err() != nil
	compareEras(x.report.Eras)
	x.report.Deviations, x.report.Coding = x.oddities.deviations, x.oddities.coding
	x.conclude(ctx)
	x.report.Connections = int(connections.Load())
	return x.report, nil
}

// accessOf says what callers send, not with which values.
func accessOf(callers []http.Header) Access {
	a := Access{Callers: len(callers), Credentials: len(callers[0]) > 0}
	names := make([]string, 0, len(callers[0]))
	for name := range callers[0] {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if a.header == "" || name == "Authorization" {
			a.header = name
		}
	}
	a.bearer = len(callers[0].Get("Authorization")) > 7 && strings.EqualFold(callers[0].Get("Authorization")[:7], "Bearer ")
	return a
}

// conversation prepares one; nothing is sent.
func (x *examination) conversation(r revision.Revision, header http.Header, capabilities []byte) *conversation {
	own := *x.http
	own.Jar, _ = cookiejar.New(nil) // of this conversation alone; without options there is no error
	return &conversation{
		client:   &client{http: &own, header: header, timeout: x.Timeout, patience: x.patience, maxList: x.MaxList, secrets: x.secrets, slash: &x.slash, oddities: &x.oddities},
		url:      x.URL,
		revision: r, capabilities: capabilities,
	}
}

// examine looks at one era, and reports whether another one is worth a try.
func (x *examination) examine(ctx context.Context, era revision.Era) (another bool) {
	latest := revision.LatestLegacy
	if era == revision.Modern {
		latest = revision.LatestModern
	}
	c := x.conversation(latest, x.Callers[0], noCapabilities)
	if err := c.open(ctx); err != nil {
		x.failures = append(x.failures, failure{era, err})
		return !unreachable(err)
	}
	e := &Era{
		Era: era.String(), Revision: c.revision.String(), Sessions: c.session != "", Acknowledgement: c.acknowledgement,
		ListChanged: []string{}, Lists: []*List{}, revision: c.revision, offered: c.info.Capabilities,
	}
	for _, capability := range []string{"tools", "prompts", "resources"} {
		if c.info.ListChanged[capability] {
			e.ListChanged = append(e.ListChanged, capability)
		}
	}
	x.report.Eras = append(x.report.Eras, e)
	if x.report.Server == "" {
		x.report.Server = c.server
	}
	for _, kind := range revision.Kinds() {
		if kind.In(c.revision) && e.offers(kind) {
			_ = x.list(ctx, c, e, kind) // the report has it
		}
	}
	x.again(ctx, c, e)
	e.Stream, e.StreamType = c.listen(ctx)
	x.unoffered(ctx, c, e)
	c.close(ctx) // before anybody else opens one: there may be a single seat
	x.revisions(ctx, c)
	x.compareOthers(ctx, e)
	x.anonymous(ctx, e)
	return true
}

// revisions finds out which others of the era the server speaks.
func (x *examination) revisions(ctx context.Context, c *conversation) {
	found := map[string]bool{c.revision.String(): true}
	for _, r := range revision.All() {
		switch {
		case r.Era() != c.revision.Era() || found[r.String()]:
		case r.Era() == revision.Modern:
			found[r.String()] = slices.Contains(c.info.SupportedVersions, r.String())
		case r < c.revision:
			other := x.conversation(r, x.Callers[0], noCapabilities)
			if other.open(ctx) == nil {
				found[other.revision.String()] = true
				other.close(ctx)
			}
		}
	}
	for r, speaks := range found {
		if speaks && !slices.Contains(x.report.Revisions, r) {
			x.report.Revisions = append(x.report.Revisions, r)
		}
	}
	slices.Sort(x.report.Revisions)
	slices.Reverse(x.report.Revisions)
}

// list fetches one list, and returns why there is none.
func (x *examination) list(ctx context.Context, c *conversation, e *Era, kind revision.Kind) error {
	w, err := c.walk(ctx, kind, x.MaxPages)
	switch {
	case err == nil:
		e.Lists = append(e.Lists, listOf(kind, w))
	case notOffered(err) || !e.offers(kind):
		e.NotOffered = append(e.NotOffered, kind.String())
	default:
		e.Lists = append(e.Lists, &List{Kind: kind.String(), kind: kind, Failure: x.reason(err)})
	}
	return err
}

// again fetches each list once more.
func (x *examination) again(ctx context.Context, c *conversation, e *Era) {
	for _, l := range e.Lists {
		if l.Failure != "" || l.Again != nil {
			continue
		}
		if w, err := c.walk(ctx, l.kind, x.MaxPages); err == nil {
			l.AgainMS = milliseconds(w.took)
			l.Again = compare(l.body, w.body)
		} else {
			l.Again = &Comparison{Failure: x.reason(err)}
		}
	}
}

// allowed is what model providers allow in the name of a tool.
var allowed = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)

// maxToolName is how many characters they allow.
const maxToolName = 64

func listOf(kind revision.Kind, w *walked) *List {
	l := &List{
		Kind: kind.String(), Items: w.body.Items, Pages: w.pages,
		Bytes: int64(len(w.body.Bytes)), Tokens: int64(len(w.body.Bytes)) / 4,
		Scope: w.body.Scope.String(), FirstMS: milliseconds(w.took), EmptyCursor: w.emptied, kind: kind, body: w.body,
	}
	for _, name := range w.body.Repeated {
		l.Repeated = append(l.Repeated, shown(name))
	}
	if w.body.HasTTL {
		ms := w.ttl.Milliseconds()
		l.TTL = &ms
	}
	if _, items, _, ok := w.body.Split(); ok {
		largest := 0
		for i, item := range items {
			if len(item) > len(items[largest]) {
				largest = i
			}
		}
		l.Largest = &Item{shown(w.body.Names()[largest]), len(items[largest])}
	}
	if kind == revision.Tools {
		for _, name := range w.body.Names() {
			if len([]rune(name)) > maxToolName {
				l.LongNames = l.LongNames.with(name)
			}
			if !allowed.MatchString(name) {
				l.OddNames = l.OddNames.with(name)
			}
		}
	}
	return l
}

// compareOthers asks as others would: a client with other capabilities, and the
// second caller.
func (x *examination) compareOthers(ctx context.Context, e *Era) {
	if info, err := x.compareAs(ctx, e, x.Callers[0], allCapabilities, func(l *List) **Comparison { return &l.Capabilities }); err == nil {
		e.OfferedToOthers = e.offeredMore(info)
	}
	differs := slices.ContainsFunc(e.Lists, func(l *List) bool { return l.Capabilities != nil && l.Capabilities.Difference != "" })
	if differs && e.Sessions {
		// Perhaps it is not the capabilities but the session.
		_, _ = x.compareAs(ctx, e, x.Callers[0], noCapabilities, func(l *List) **Comparison { return &l.Session })
	}
	if len(x.Callers) > 1 {
		if _, err := x.compareAs(ctx, e, x.Callers[1], noCapabilities, func(l *List) **Comparison { return &l.Caller }); err != nil {
			x.report.Access.Second = x.reason(err)
		}
	}
}

// compareAs fetches the lists as somebody else. It returns what the server says of itself
// to him, or why that was not possible at all.
func (x *examination) compareAs(ctx context.Context, e *Era, header http.Header, capabilities []byte, where func(*List) **Comparison) (message.ServerInfo, error) {
	c := x.conversation(e.revision, header, capabilities)
	if err := c.open(ctx); err != nil {
		return message.ServerInfo{}, err
	}
	defer c.close(ctx)
	for _, l := range e.Lists {
		if l.Failure != "" {
			continue
		}
		w, err := c.walk(ctx, l.kind, x.MaxPages)
		if err != nil {
			*where(l) = &Comparison{Failure: x.reason(err)}
			continue
		}
		*where(l) = compare(l.body, w.body)
	}
	return c.info, nil
}

// anonymous finds out what a caller without the headers is given.
func (x *examination) anonymous(ctx context.Context, e *Era) {
	if !x.report.Access.Credentials || ctx.Err() != nil {
		return
	}
	_, err := x.compareAs(ctx, e, http.Header{}, noCapabilities, func(l *List) **Comparison { return &l.Anonymous })
	needed := refusesCaller(err)
	for _, l := range e.Lists {
		needed = needed || l.Anonymous != nil && l.Anonymous.Failure != ""
	}
	x.report.Access.Needed = x.report.Access.Needed || needed
}

// refusesCaller reports whether err says that the caller is not let in.
func refusesCaller(err error) bool {
	refused, ok := errors.AsType[*refusedError](err)
	return ok && (refused.answer.status == http.StatusUnauthorized || refused.answer.status == http.StatusForbidden || refused.answer.rpc != nil)
}

func milliseconds(d time.Duration) float64 {
	return float64(d.Round(100*time.Microsecond).Microseconds()) / 1000
}

// reason says in a few words why something failed.
func (x *examination) reason(err error) string {
	if t := x.troubleOf(err); t.short != "" {
		return t.short
	}
	return clipped(cmp.Or(outage.Words(err, x.Timeout), err.Error()), maxReason)
}
