package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// upstream is the MCP server behind all proxies: one of both eras that answers
// with ready bytes, so that it costs next to nothing.
type upstream struct {
	requests atomic.Uint64
	list     atomic.Pointer[[]byte] // the members of the result
	private  atomic.Pointer[callerLists]

	mu      sync.Mutex
	streams map[chan struct{}]struct{} // get a value when the list has changed
}

func newUpstream(tools []tool) *upstream {
	u := &upstream{streams: make(map[chan struct{}]struct{})}
	list := toolList(tools)
	u.list.Store(&list)
	return u
}

const (
	// prefixSize is how much of a request is looked into.
	prefixSize = 4 << 10

	revisionMeta     = "io.modelcontextprotocol/protocolVersion"
	subscriptionMeta = "io.modelcontextprotocol/subscriptionId"
	capabilities     = `"capabilities":{"tools":{"listChanged":true}}`
	hints            = `"ttlMs":3600000,"cacheScope":"public"`
	privateHints     = `"ttlMs":3600000,"cacheScope":"private"`
	sessionID        = "bench-session"
)

// streamTool is the tool that is answered with a stream of events.
const streamTool = "stream"

// call is a request as the upstream sees it.
type call struct {
	http.ResponseWriter
	r              *http.Request
	modern         bool
	prefix         []byte
	id, method     []byte
	authentication string
}

// ServeHTTP implements [http.Handler].
func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &call{
		ResponseWriter: w, r: r, modern: r.Header.Get("Mcp-Protocol-Version") >= modern,
		authentication: r.Header.Get("Authorization"),
	}
	switch r.Method {
	case http.MethodPost:
		u.post(c)
	case http.MethodGet:
		u.listen(c, `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
	case http.MethodDelete:
		w.WriteHeader(http.StatusNoContent)
	default:
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
}

func (u *upstream) post(c *call) {
	u.requests.Add(1)
	prefix := make([]byte, prefixSize)
	n, err := io.ReadFull(c.r.Body, prefix)
	if err == nil {
		_, err = io.Copy(io.Discard, c.r.Body)
	}
	if err != nil && n == 0 {
		c.WriteHeader(http.StatusBadRequest)
		return
	}
	c.prefix = prefix[:n]
	c.id, c.method = member(c.prefix, "id"), bytes.Trim(member(c.prefix, "method"), `"`)
	switch method := string(c.method); {
	case strings.HasPrefix(method, "notifications/"):
		c.WriteHeader(http.StatusAccepted)
	case method == "initialize":
		c.Header().Set("Mcp-Session-Id", sessionID)
		c.result(fmt.Appendf(nil, `"protocolVersion":%s,%s,"serverInfo":{"name":"bench","version":"1"}`,
			member(c.prefix, "protocolVersion"), capabilities))
	case method == "server/discover":
		c.result(fmt.Appendf(nil, `"resultType":"complete","supportedVersions":[%q,%q],%s,%s`,
			modern, legacy, capabilities, hints))
	case method == "tools/list":
		u.answerList(c)
	case method == "subscriptions/listen":
		u.subscribe(c)
	case method == "tools/call":
		c.callTool()
	default:
		c.send(http.StatusOK, `"error":{"code":-32601,"message":"method not found"}`)
	}
}

// member returns the value of the first member of that name, as it is written.
// It must be a number or a string without quotes.
func member(object []byte, name string) []byte {
	_, rest, found := bytes.Cut(object, []byte(`"`+name+`":`))
	if !found {
		return nil
	}
	end := bytes.IndexAny(rest, ",}")
	if end < 0 {
		return nil
	}
	return rest[:end]
}

func (u *upstream) answerList(c *call) {
	list, scope := *u.list.Load(), hints
	if private := u.private.Load(); private != nil {
		list, scope = private.of(c.authentication), privateHints
	}
	if c.modern {
		list = append([]byte(`"resultType":"complete",`+scope+`,`), list...)
	}
	c.result(list)
}

func (c *call) callTool() {
	content := []byte(`"content":[{"type":"text","text":"done"}]`)
	if c.modern {
		content = append([]byte(`"resultType":"complete",`), content...)
	}
	if string(member(c.prefix, "name")) != `"`+streamTool+`"` {
		c.result(content)
		return
	}
	c.openStream()
	c.event(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"working"}}`)
	c.event(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{%s}}`, c.id, content))
}

// result answers with a result of those members.
func (c *call) result(members []byte) { c.send(http.StatusOK, `"result":{`, string(members), "}") }

func (c *call) send(status int, parts ...string) {
	body := `{"jsonrpc":"2.0","id":` + string(c.id) + "," + strings.Join(parts, "") + "}"
	c.Header().Set("Content-Type", "application/json")
	c.Header().Set("Content-Length", fmt.Sprint(len(body)))
	c.WriteHeader(status)
	_, _ = io.WriteString(c, body) // a client that is gone misses nothing
}

func (u *upstream) subscribe(c *call) {
	c.openStream()
	meta := fmt.Sprintf(`"_meta":{%q:%s}`, subscriptionMeta, c.id)
	c.event(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{` + meta +
		`,"notifications":{"toolsListChanged":true}}}`)
	u.follow(c, `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{`+meta+`}}`)
}

func (u *upstream) listen(c *call, notice string) {
	c.openStream()
	u.follow(c, notice)
}

// follow sends a notice for each change until the client is gone.
func (u *upstream) follow(c *call, notice string) {
	changed := make(chan struct{}, 1)
	u.mu.Lock()
	u.streams[changed] = struct{}{}
	u.mu.Unlock()
	defer func() {
		u.mu.Lock()
		delete(u.streams, changed)
		u.mu.Unlock()
	}()
	for {
		select {
		case <-changed:
			c.event(notice)
		case <-c.r.Context().Done():
			return
		}
	}
}

func (c *call) openStream() {
	c.Header().Set("Content-Type", "text/event-stream")
	c.Header().Set("Cache-Control", "no-cache")
	c.WriteHeader(http.StatusOK)
	c.flush()
}

func (c *call) event(data string) {
	_, _ = io.WriteString(c, "event: message\ndata: "+data+"\n\n")
	c.flush()
}

// flush sends what was written. A client that is gone shows in the context.
func (c *call) flush() { _ = http.NewResponseController(c.ResponseWriter).Flush() }

// announce tells all streams that the list has changed. One that has not sent
// the last notice yet needs no second.
func (u *upstream) announce() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for changed := range u.streams {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
}

// Upstream is what an upstream's process can be asked for. Its methods are
// called by [net/rpc].
type Upstream struct {
	Server

	upstream *upstream
	stop     context.CancelFunc // ends the changes, if there are any
	changes  sync.WaitGroup
}

// Change makes the list another one at an interval; 0 leaves it as it is.
func (u *Upstream) Change(every time.Duration, _ *struct{}) error {
	u.rest()
	if every == 0 {
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	u.stop = cancel
	list := *u.upstream.list.Load()
	u.changes.Go(func() { u.upstream.keepChanging(ctx, every, list) })
	return nil
}

// rest ends the changes.
func (u *Upstream) rest() {
	if u.stop != nil {
		u.stop()
		u.changes.Wait()
		u.stop = nil
	}
}

// keepChanging gives the first description of the list a number that changes.
func (u *upstream) keepChanging(ctx context.Context, every time.Duration, list []byte) {
	defer u.list.Store(&list)
	place := []byte(`"description":"`)
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for n := 1000; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			changed := bytes.Replace(list, place, fmt.Appendf(nil, `%s%d `, place, n), 1)
			u.list.Store(&changed)
			u.announce()
		}
	}
}

// Callers gives each credential a list of its own; see [callerLists].
func (u *Upstream) Callers(kind string, _ *struct{}) error {
	lists, err := newCallerLists(kind)
	if err != nil {
		return err
	}
	u.upstream.private.Store(lists)
	return nil
}

// runUpstream serves a list of tools at an address. Arguments: address, file of
// tools.
func runUpstream(args []string) error {
	tools, err := readTools(args[1])
	if err != nil {
		return err
	}
	u := newUpstream(tools)
	service := &Upstream{Server: Server{requests: u.requests.Load}, upstream: u}
	defer service.rest()
	return serve(args[0], u, service)
}
