package upstream

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/budget"
)

// Answer is the response writer of a request of our own: it keeps what the upstream
// answers.
type Answer struct {
	// Status is 0 while there is none.
	Status int
	Body   []byte
	// Cut says that there was no room for all of the body: it is larger than allowed, or
	// than what there is of the memory. Body is its beginning.
	Cut bool

	header http.Header
	limit  int64 // of the body, in bytes
	memory budget.Share
	// suffices reports whether the body has what was asked for; leave is called once it
	// does. They are nil outside of [Answer.Collect].
	suffices func(body []byte) bool
	leave    func()
}

// NewAnswer returns the writer of an answer of at most limit bytes, which are taken
// from the memory until it is closed. header is what handlers in front have set.
func NewAnswer(header http.Header, limit int64, memory *budget.Budget) *Answer {
	return &Answer{header: header, limit: limit, memory: memory.Share()}
}

// Header implements [http.ResponseWriter].
func (a *Answer) Header() http.Header { return a.header }

// WriteHeader implements [http.ResponseWriter].
func (a *Answer) WriteHeader(status int) {
	if a.Status == 0 && status >= http.StatusOK {
		a.Status = status
	}
}

// Write implements [io.Writer].
func (a *Answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	a.Cut = a.Cut || int64(len(a.Body)+len(p)) > a.limit || !a.memory.Grow(int64(len(p)))
	if !a.Cut {
		a.Body = append(a.Body, p...)
	}
	if a.suffices != nil && a.suffices(a.Body) {
		a.suffices = nil
		a.leave()
	}
	return len(p), nil
}

// Collect has serve answer a request here. Once the body suffices, the answer need not
// end by itself: some servers leave a stream open behind it (toolhive#2403).
func (a *Answer) Collect(r *http.Request, suffices func(body []byte) bool, serve func(*http.Request) error) (err error) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	left := false
	a.suffices = suffices
	a.leave = func() {
		left = true
		time.AfterFunc(lingerAnswered, cancel)
	}
	defer func() {
		if a.suffices = nil; !left {
			return
		}
		err = nil
		p := recover() // reverse_proxy aborts when it is left
		if aborted, _ := p.(error); p != nil && !errors.Is(aborted, http.ErrAbortHandler) {
			panic(p)
		}
	}()
	return serve(r.WithContext(ctx))
}

// lingerAnswered is how long an answer that suffices may take to end by itself, so that
// its connection can be used again.
const lingerAnswered = 200 * time.Millisecond

// FlushError implements what [http.ResponseController] calls.
func (a *Answer) FlushError() error { return nil }

// Close gives the memory back.
func (a *Answer) Close() { a.memory.Release() }

// Interface guards
var (
	_ http.ResponseWriter             = (*Answer)(nil)
	_ interface{ FlushError() error } = (*Answer)(nil)
)
