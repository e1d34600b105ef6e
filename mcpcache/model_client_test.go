package mcpcache

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// client is somebody who uses the product.
type client struct {
	n       int
	at      *modelInstance // that it uses
	ctx     string
	rev     revision.Revision
	caps    string // its capabilities
	name    string
	session string // of a legacy client, if the upstream has given one
	past    []string
	cursors map[revision.Kind]string
	// without is what a client of a toolkit was given no part of.
	without map[partKind]absence
}

func newClient(r *rand.Rand, n int) *client {
	c := &client{
		n: n, ctx: pick(r, "-", "-", "A", "A", "B", "C"), caps: "{}", cursors: make(map[revision.Kind]string), without: make(map[partKind]absence),
		rev: pick(r, revision.LatestLegacy, revision.LatestLegacy, revision.LatestModern, revision.LatestModern, revision.V20250618),
	}
	if r.IntN(3) == 0 {
		c.caps = `{"roots":{}}`
	}
	c.name = pick(r, "c", "c", "d")
	return c
}

func (c *client) modern() bool { return c.rev.Era() == revision.Modern }

func (c *client) String() string {
	s := fmt.Sprintf("client %d (%s %s", c.n, c.ctx, c.rev)
	if c.session != "" {
		s += " " + c.session[max(len(c.session)-7, 0):]
	}
	if c.caps != "{}" {
		s += " with roots"
	}
	return s + ")"
}

// request is what a client asks for.
type request struct {
	http    string
	method  string
	params  map[string]any
	kind    revision.Kind
	list    bool
	cursor  bool
	stream  bool // a stream that is there to last
	events  bool // rather an event stream
	gzip    bool // rather compressed
	unknown bool // a parameter that no cache can know
	notify  bool
	past    string // a session from before, in which this is asked once more
	also    string // another session that it names
	// elsewhere: at another path, which the upstream takes for its endpoint.
	elsewhere bool
	hop       string // a header that is named in Connection: the upstream does not get it
	mustHit   bool   // the answer has to be a hit

	batch   []request // instead of a method
	lie     string    // what the Mcp-Name header says instead of what is named
	long    int       // how many bytes it is longer
	resumes string    // the method of a list of which a GET wants the rest of the stream
	listed  bool      // what it names is in the list that the caller is taken to have
}

// call is a request on its way.
type call struct {
	request
	w       *world
	at      *modelInstance // that it is sent to
	c       *client
	serial  string
	ctx     string // of the credentials that the upstream gets
	session string // that the upstream gets
	named   string // the session that the request names
	before  knowledge
	rules   modelRules            // that count for it
	parts   []joinedPart          // what is known of each server, if it is for a toolkit
	heard   map[revision.Kind]int // how often its client was told of changes on it
	names   []mention
	sent    []byte                // its body
	refused map[revision.Kind]int // when the caller was refused what it names, by kind
	shown   []int                 // the numbers of the items in an answer from the cache
	moment  int                   // in which it began
	ttl     time.Duration         // the longest of the configurations that may answer it
	cancel  context.CancelFunc

	cancelled bool
	header    http.Header
	status    int
	body      bytes.Buffer
	wrote     http.Header
	announced []*notice // notices whose bytes have begun to arrive
	err       error
	aborted   bool
	panicked  any
}

func (c *call) String() string {
	what := c.method
	if c.batch != nil {
		what = "a batch"
	}
	if c.http != http.MethodPost {
		what = c.http
	}
	if c.cursor {
		what += " by cursor"
	}
	if c.past != "" {
		what += " in " + c.past
	}
	if c.elsewhere {
		what += " at /mcp/"
	}
	if c.hop != "" {
		what += " without " + c.hop
	}
	return fmt.Sprintf("%s: %s #%s", c.c, what, c.serial)
}

// newCall returns a request of a client, which is not sent yet.
func (w *world) newCall(c *client, r request, serial string) *call {
	x := &call{request: r, w: w, at: c.at, c: c, serial: serial, ctx: c.ctx, session: c.session, header: make(http.Header)}
	switch {
	case r.method == "initialize":
		x.session = ""
	case r.past != "":
		x.session = r.past
	}
	x.named = x.session
	switch r.hop {
	case "Authorization":
		x.ctx = "-"
	case "Mcp-Session-Id":
		x.session = ""
	}
	x.rules, x.names = c.at.rules, namesOf(r)
	return x
}

// send starts a request. Its answer is checked when it is complete.
func (w *world) send(c *client, r request) *call {
	w.mu.Lock()
	w.serial++
	x := w.newCall(c, r, strconv.Itoa(w.serial))
	ctx, cancel := context.WithCancel(context.Background())
	x.cancel = cancel
	w.pending[x], w.asking[x.serial] = true, x
	x.before = x.at.truth.before(r.kind, x.ctx, x.session, c.rev.String())
	x.ttl = w.longestTTL(x.at)
	x.refused = make(map[revision.Kind]int)
	for _, k := range x.kinds() {
		x.refused[k] = x.at.truth.refusedKind[callerKind{callerOf(x.session, x.ctx, c.rev.String()), k}]
	}
	handler := x.at.handler
	x.before.prospect = w.prospectOf(x, x.at.server)
	x.moment = w.moment
	w.crowd[x.moment]++
	w.known.askers[x.serial] = x.ctx
	if r.list {
		delete(x.at.truth.changed, callerOf(x.session, x.ctx, c.rev.String()))
	}
	w.mu.Unlock()
	x.run(ctx, handler, w.check)
	return x
}

// run has the product answer a request while other things happen, and the answer checked. check is called
// with the world's lock held.
func (x *call) run(ctx context.Context, h *Handler, check func(*call)) {
	x.at.calls.Go(func() {
		defer x.cancel()
		x.serve(h, x.build(ctx))
		x.w.mu.Lock()
		defer x.w.mu.Unlock()
		delete(x.w.pending, x)
		delete(x.w.asking, x.serial)
		check(x)
	})
}

// serve calls the product. That a broken answer aborts is no more than what
// the upstream did.
func (x *call) serve(h *Handler, r *http.Request) {
	defer func() {
		switch p := recover(); p {
		case nil:
		case http.ErrAbortHandler:
			x.aborted = true
		default:
			x.panicked = p
		}
	}()
	r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), x, new(caddyhttp.Server))
	x.err = h.ServeHTTP(x, r, caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error { return nil }))
}

// id is the JSON-RPC id of the request.
func (x *call) id() string {
	if x.c.n%2 == 0 && x.parts == nil {
		return x.serial
	}
	return `"id-` + x.serial + `"`
}

// written is what the client sends: one message, or a batch.
func (x *call) written(r request, id string) []byte {
	if r.batch != nil {
		body := []byte("[")
		for i, one := range r.batch {
			body = append(append(body, x.written(one, x.idOf(i))...), ',')
		}
		body[len(body)-1] = ']'
		return body
	}
	params := r.params
	if params == nil {
		params = map[string]any{}
	}
	if r.unknown {
		params["like"] = "x"
	}
	if r.long > 0 {
		params["long"] = strings.Repeat("x", r.long)
	}
	if x.c.modern() {
		params["_meta"] = map[string]any{
			"io.modelcontextprotocol/protocolVersion":    x.c.rev.String(),
			"io.modelcontextprotocol/clientCapabilities": json.RawMessage(x.c.caps),
		}
	}
	raw, err := json.Marshal(params)
	if err != nil {
		panic(err)
	}
	id = `"id":` + id + ","
	if r.notify {
		id = ""
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0",%s"method":%q,"params":%s}`, id, r.method, raw)
}

// idOf is the id of a message of a batch.
func (x *call) idOf(i int) string { return fmt.Sprintf(`"id-%s-%d"`, x.serial, i) }

func (x *call) build(ctx context.Context) *http.Request {
	if x.sent = nil; x.http == http.MethodPost {
		x.sent = x.written(x.request, x.id())
	}
	path := "/mcp"
	if x.elsewhere {
		path = "/mcp/"
	}
	r, err := http.NewRequestWithContext(ctx, x.http, "http://example.com"+path, bytes.NewReader(x.sent))
	if err != nil {
		panic(err)
	}
	if x.long%2 == 1 {
		r.ContentLength = -1
	}
	x.setHeaders(r)
	return r
}

func (x *call) setHeaders(r *http.Request) {
	set := func(name, value string) {
		if value != "" {
			r.Header.Set(name, value)
		}
	}
	set("X-Request-Id", x.serial)
	set("Authorization", tokenOf(x.c.ctx))
	set("Connection", x.hop)
	set("Last-Event-Id", x.resumes)
	if x.gzip {
		set("Accept-Encoding", "gzip")
	}
	set("Accept", "application/json, text/event-stream")
	if x.events {
		set("Accept", "application/json;q=0.5, text/event-stream")
	}
	if x.http == http.MethodPost {
		set("Content-Type", "application/json")
	}
	set("Mcp-Session-Id", x.named)
	if x.also != "" {
		r.Header.Add("Mcp-Session-Id", x.also)
	}
	if x.method != "initialize" {
		set("Mcp-Protocol-Version", x.c.rev.String())
	}
	if x.c.modern() {
		set("Mcp-Method", x.method)
		if uri, ok := x.params["uri"].(string); ok {
			set("Mcp-Name", uri)
		}
		if name, ok := x.params["name"].(string); ok {
			set("Mcp-Name", name)
		}
	}
	set("Mcp-Name", x.lie)
}

// Header implements [http.ResponseWriter].
func (x *call) Header() http.Header { return x.header }

// WriteHeader implements [http.ResponseWriter].
func (x *call) WriteHeader(status int) {
	x.w.mu.Lock()
	defer x.w.mu.Unlock()
	if x.status != 0 {
		x.w.fail("%s: the header was written twice", x)
		return
	}
	if x.status, x.wrote = status, x.header.Clone(); x.parts != nil {
		return
	}
	if originOf(strings.Join(x.wrote["Cache-Status"], ", ")) == refusedByRules {
		return // the upstream has not said that
	}
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound:
		x.at.truth.refuses(x, status)
	case http.StatusBadRequest:
		x.at.truth.refusesSessions(x.refusedAt(), x.session, x.also)
	}
}

// refusedAt returns when the refusal counts that the client is given now: the upstream may have
// begun it before it let the caller in again, and ended it after that.
func (x *call) refusedAt() int {
	if s := x.w.up.sent[x.serial]; s != nil && s.status == x.status {
		return s.begun
	}
	return x.w.known.next()
}

var announced = regexp.MustCompile(`"notice":(\d+),`)

// Write implements [io.Writer]. A notice counts as passed on with the last
// byte of its method.
func (x *call) Write(p []byte) (int, error) {
	if x.status == 0 {
		x.WriteHeader(http.StatusOK)
	}
	x.w.mu.Lock()
	defer x.w.mu.Unlock()
	from := max(x.body.Len()-len(`"notice":12345`), 0)
	if x.body.Write(p); x.parts != nil {
		x.w.toolkit.tells(x)
		return len(p), nil
	}
	for _, m := range announced.FindAllSubmatch(x.body.Bytes()[from:], -1) {
		id, err := strconv.Atoi(string(m[1]))
		if err != nil {
			panic(err)
		}
		if n := x.w.up.notices[id]; !slices.Contains(x.announced, n) {
			x.announced = append(x.announced, n)
		}
	}
	for i := 0; i < len(x.announced); {
		n := x.announced[i]
		if !n.passed(x.body.Bytes()) {
			i++
			continue
		}
		x.announced = append(x.announced[:i], x.announced[i+1:]...)
		x.w.tells(x, n)
		x.w.note("%s: notice %d has arrived", x, n.id)
	}
	return len(p), nil
}

// FlushError is what [http.ResponseController] calls.
func (x *call) FlushError() error {
	if x.status == 0 {
		x.WriteHeader(http.StatusOK)
	}
	return nil
}

// message returns the JSON-RPC message of the answer.
func (x *call) message() []byte {
	if !strings.HasPrefix(x.wrote.Get("Content-Type"), "text/event-stream") {
		return x.body.Bytes()
	}
	var last []byte
	for event := range bytes.SplitSeq(x.body.Bytes(), []byte("\n\n")) {
		for line := range bytes.SplitSeq(event, []byte("\n")) {
			if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
				last = data
			}
		}
	}
	return last
}
