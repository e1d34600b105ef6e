package scripted

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
)

// Exchange is one request and the means to answer it.
type Exchange struct {
	Message

	W http.ResponseWriter
	R *http.Request

	server    *Server
	events    sync.Mutex // one is sent at a time
	streaming bool
}

// asked numbers the requests that go from the server to clients.
var asked atomic.Int64

// Envelope wraps a result into a response to x.
func (x *Exchange) Envelope(result string) string {
	x.server.mu.Lock()
	envelope := x.server.settings.envelope
	x.server.mu.Unlock()
	if envelope != nil {
		return envelope(string(x.ID), result)
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, x.ID, result)
}

// Result answers with a result, as JSON or as an event stream.
func (x *Exchange) Result(result string) {
	x.server.mu.Lock()
	sse, interleaved := x.server.settings.sse, x.server.settings.interleaved
	x.server.mu.Unlock()
	if !sse && !x.streaming {
		x.Raw(http.StatusOK, "application/json", x.Envelope(result))
		return
	}
	for _, event := range interleaved {
		x.Event(event)
	}
	x.open()
	envelope := x.Envelope(result)
	writeEvent(x.W, x.remember(envelope), envelope)
}

// remember keeps an answer for streams that are resumed, and returns its ID; "" if it
// is not kept.
func (x *Exchange) remember(data string) string {
	x.server.mu.Lock()
	defer x.server.mu.Unlock()
	if session := x.server.sessions[x.Session]; session != nil && x.server.settings.resumable && !x.Modern {
		return session.remember(data)
	}
	return ""
}

// Error answers with a JSON-RPC error; members of data may follow its code.
func (x *Exchange) Error(status, code int, message string, data ...string) {
	id := x.ID
	if id == nil {
		id = json.RawMessage("null")
	}
	more := ""
	if len(data) > 0 {
		more = `,"data":` + data[0]
	}
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q%s}}`, id, code, message, more)
	if x.streaming {
		x.Event(body)
		return
	}
	x.Raw(status, "application/json", body)
}

// Raw answers with that status, content type and body. A failure to write is
// the client's own doing.
func (x *Exchange) Raw(status int, contentType, body string) {
	h := x.W.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	x.W.WriteHeader(status)
	_, _ = io.WriteString(x.W, body)
}

// Event sends one event; the first opens the stream. It may be called from any goroutine.
func (x *Exchange) Event(data string) {
	x.events.Lock()
	defer x.events.Unlock()
	x.open()
	writeEvent(x.W, "", data)
}

// Bytes sends bytes of an event stream as they are.
func (x *Exchange) Bytes(raw string) {
	x.open()
	_, _ = io.WriteString(x.W, raw)
	flush(x.W)
}

func (x *Exchange) open() {
	if x.streaming {
		return
	}
	x.streaming = true
	openStream(x.W)
}

// Ask sends a request to the client on the stream of x and waits for its
// response. It reports false if the client went away.
func (x *Exchange) Ask(method, params string) (Message, bool) {
	id := strconv.FormatInt(asked.Add(1), 10)
	answers := make(chan Message, 1)
	x.server.mu.Lock()
	session := x.server.sessions[x.Session]
	if session != nil {
		session.waiting[id] = answers
	}
	x.server.mu.Unlock()
	if session == nil {
		return Message{}, false
	}
	x.Event(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`, id, method, params))
	select {
	case m := <-answers:
		return m, true
	case <-x.R.Context().Done():
		return Message{}, false
	}
}

// Done is closed when the client is gone.
func (x *Exchange) Done() <-chan struct{} { return x.R.Context().Done() }

// Default answers as a server without a script does.
func (x *Exchange) Default() {
	switch {
	case x.Modern && !x.server.speaks(Modern):
		x.Error(http.StatusBadRequest, -32000, "Bad Request: Server not initialized")
	case x.Modern:
		if x.validModern() {
			x.dispatch()
		}
	case x.Method == "initialize":
		x.initialize()
	case x.server.legacy() == "":
		x.unsupported(x.Revision)
	case x.validLegacy():
		x.dispatch()
	}
}

func (x *Exchange) dispatch() {
	if x.ID == nil {
		x.W.WriteHeader(http.StatusAccepted)
		return
	}
	switch {
	case itemsKeys[x.Method] != "":
		x.answerList()
	case x.Method == "server/discover" && x.Modern:
		x.Result(x.server.discover())
	case x.Method == "subscriptions/listen" && x.Modern:
		x.listen()
	case x.Method == "tools/call":
		x.call()
	case x.Method == "resources/read":
		x.read()
	case x.Method == "prompts/get":
		x.Result(x.complete(`"messages":[]`))
	case x.Method == "completion/complete":
		x.Result(x.complete(`"completion":{"values":["a","b"]}`))
	case x.Method == "ping", x.Method == "logging/setLevel", x.Method == "resources/subscribe",
		x.Method == "resources/unsubscribe":
		x.Result(`{}`)
	default:
		status := http.StatusOK
		if x.Modern {
			status = http.StatusNotFound
		}
		x.Error(status, -32601, "method not found: "+x.Method)
	}
}

// complete makes a result of those members for the era of x.
func (x *Exchange) complete(members string) string {
	if x.Modern {
		return `{"resultType":"complete",` + members + `}`
	}
	return `{` + members + `}`
}

func (x *Exchange) answerList() {
	result, ok := x.server.list(&x.Message)
	if !ok {
		x.Error(x.badRequest(), -32602, "invalid cursor")
		return
	}
	x.Result(result)
}

// badRequest is the status of an error in params.
func (x *Exchange) badRequest() int {
	if x.Modern {
		return http.StatusBadRequest
	}
	return http.StatusOK
}

func (x *Exchange) call() {
	name, _ := x.param("name")
	if !x.server.hasTool(&x.Message, name) {
		x.Error(x.badRequest(), -32602, "unknown tool: "+name)
		return
	}
	x.Result(x.complete(fmt.Sprintf(`"content":[{"type":"text","text":%q}]`, "called "+name)))
}

func (x *Exchange) read() {
	uri, _ := x.param("uri")
	x.server.mu.Lock()
	members, ok := x.server.settings.contents[uri]
	hints := x.server.settings.hints
	x.server.mu.Unlock()
	if !ok {
		x.Error(x.badRequest(), -32602, "resource not found")
		return
	}
	result := fmt.Sprintf(`"contents":[{"uri":%q,%s}]`, uri, members)
	if x.Modern && hints != "" {
		result += "," + hints
	}
	x.Result(x.complete(result))
}
