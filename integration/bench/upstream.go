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

// revision is the one that all clients here speak.
const revision = "2025-11-25"

// upstream is the MCP server behind all proxies: one with a session that answers
// with ready bytes, so that it costs next to nothing.
type upstream struct {
	list atomic.Pointer[[]byte] // the members of the result

	mu      sync.Mutex
	streams map[chan struct{}]struct{} // get a value when the list has changed
}

func newUpstream(tools []tool) *upstream {
	u := &upstream{streams: make(map[chan struct{}]struct{})}
	list := toolList(tools)
	u.list.Store(&list)
	return u
}

// prefixSize is how much of a request is looked into.
const prefixSize = 4 << 10

// ServeHTTP implements [http.Handler].
func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodPost:
		u.post(w, r)
	case http.MethodGet:
		u.follow(w, r)
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

func (u *upstream) post(w http.ResponseWriter, r *http.Request) {
	prefix, err := io.ReadAll(io.LimitReader(r.Body, prefixSize))
	if err == nil {
		_, err = io.Copy(io.Discard, r.Body)
	}
	if err != nil {
		return // the client has gone
	}
	id, method := member(prefix, "id"), member(prefix, "method")
	message := func(rest string) string { return `{"jsonrpc":"2.0","id":` + id + "," + rest + "}" }
	switch {
	case strings.HasPrefix(method, `"notifications/`):
		w.WriteHeader(http.StatusAccepted)
	case method == `"initialize"`:
		w.Header().Set("Mcp-Session-Id", sessionID)
		send(w, message(`"result":{"protocolVersion":"`+revision+`","capabilities":{"tools":{"listChanged":true}},`+
			`"serverInfo":{"name":"bench","version":"1"}}`))
	case method == `"tools/list"`:
		send(w, message(`"result":{`+string(*u.list.Load())+`}`))
	case method == `"tools/call"` && member(prefix, "name") == `"`+streamTool+`"`:
		openStream(w)
		event(w, `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"working"}}`)
		event(w, message(done))
	case method == `"tools/call"`:
		send(w, message(done))
	default:
		send(w, message(`"error":{"code":-32601,"message":"method not found"}`))
	}
}

const done = `"result":{"content":[{"type":"text","text":"done"}]}`

// member returns the value of the first member of that name, as it is written.
// It must be a number or a string without quotes.
func member(object []byte, name string) string {
	_, rest, _ := bytes.Cut(object, []byte(`"`+name+`":`))
	return string(rest[:max(0, bytes.IndexAny(rest, ",}"))])
}

func send(w http.ResponseWriter, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", fmt.Sprint(len(message)))
	_, _ = io.WriteString(w, message) // a client that is gone misses nothing
}

func openStream(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	_ = http.NewResponseController(w).Flush() // a client that is gone shows in the context
}

func event(w http.ResponseWriter, data string) {
	_, _ = io.WriteString(w, "event: message\ndata: "+data+"\n\n")
	_ = http.NewResponseController(w).Flush()
}

// follow sends a notice for each change until the client is gone.
func (u *upstream) follow(w http.ResponseWriter, r *http.Request) {
	openStream(w)
	changed := make(chan struct{}, 1)
	u.mu.Lock()
	u.streams[changed] = struct{}{}
	u.mu.Unlock()
	defer func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		delete(u.streams, changed)
	}()
	for {
		select {
		case <-changed:
			event(w, `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		case <-r.Context().Done():
			return
		}
	}
}

// keepChanging gives the first description of the list a number that changes,
// and tells all streams. One that has not sent the last notice yet needs no
// second.
func (u *upstream) keepChanging(ctx context.Context, every time.Duration) {
	list, place := *u.list.Load(), []byte(`"description":"`)
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for n := 1000; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		changed := bytes.Replace(list, place, fmt.Appendf(nil, `%s%d `, place, n), 1)
		u.list.Store(&changed)
		u.mu.Lock()
		for stream := range u.streams {
			select {
			case stream <- struct{}{}:
			default:
			}
		}
		u.mu.Unlock()
	}
}
