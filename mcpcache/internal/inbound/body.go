package inbound

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"slices"
	"sync"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/budget"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/pace"
)

// Body is what has been read of a request body. Nothing has been read of the zero
// value.
type Body struct {
	Bytes []byte
	Whole bool    // nothing is left to read
	room  *[]byte // the buffer that Bytes are in; nil if it is not to be reused
}

const (
	// firstRead is the first size of a buffer for a request of unknown length, in
	// bytes, and by how much it grows at least.
	firstRead = 1 << 10
	// maxPooled is the largest buffer that goes back to the pool, in bytes.
	maxPooled = 64 << 10
)

// buffers holds the buffers of requests that were hits. Forwarded requests keep
// theirs, so buffers are made no larger than their request.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// Read reads a request body of at most limit bytes, or the beginning of a
// longer one.
func (b *Body) Read(r *http.Request, limit int64) error {
	b.room = buffers.Get().(*[]byte)
	data := (*b.room)[:0]
	if n := r.ContentLength; n > 0 && n <= limit {
		// With room for one byte more, the last read returns io.EOF.
		data = slices.Grow(data, int(n)+1)
	}
	return b.readTo(r, data, limit, nil, nil)
}

// ErrTooSlow says that a client takes longer to send a request than memory is kept for it.
var ErrTooSlow = errors.New("request comes too slowly")

// ErrNoRoom says that there is no memory for a request body.
var ErrNoRoom = errors.New("no room for the request body")

// ReadOn reads on in a body of which no more than the beginning has been read, up to
// limit bytes. What it needs is taken from a share of the memory; if there is not
// enough, the error is [ErrNoRoom]. Meanwhile others may not find any, so a client that
// sends too slowly is cut off, with the error [ErrTooSlow]: w is the way to its connection. If
// w is nil, it is not.
func (b *Body) ReadOn(w http.ResponseWriter, r *http.Request, limit int64, share *budget.Share) error {
	if b.Whole {
		return nil
	}
	data := b.Bytes
	if n := r.ContentLength + 1; n > int64(len(data)) && n <= limit+1 {
		if !share.Grow(n - int64(len(data))) {
			return ErrNoRoom
		}
		data = append(make([]byte, 0, n), data...) // no more than it needs
	}
	var p *pace.Pace
	if w != nil {
		p = pace.Reading(w)
	}
	err := b.readTo(r, data, limit, share, p)
	if p.End(err == nil) {
		return ErrTooSlow
	}
	return err
}

// readTo reads on behind data, which has been read, from a share and at a pace if there
// are such.
func (b *Body) readTo(r *http.Request, data []byte, limit int64, share *budget.Share, p *pace.Pace) error {
	for {
		if len(data) == cap(data) {
			more := len(data) + firstRead
			if share != nil {
				more = int(min(int64(more), limit+1-int64(len(data))))
				if !share.Grow(int64(more)) {
					return ErrNoRoom
				}
			}
			data = slices.Grow(data, more)
		}
		n, err := r.Body.Read(data[len(data):min(int64(cap(data)), limit+1)])
		data = data[:len(data)+n]
		b.Bytes = data
		p.Have(len(data))
		switch {
		case int64(len(data)) > limit:
			return nil
		case err == io.EOF:
			b.Whole = true
			return nil
		case err != nil:
			return err
		}
	}
}

// Begun reports whether any of the body has been read.
func (b *Body) Begun() bool { return b.room != nil || b.Bytes != nil }

// Replay gives r a body that can be read from the start again.
func (b *Body) Replay(r *http.Request) {
	if b.Bytes == nil {
		return
	}
	b.Keep() // a transport may read a request's body after it has answered
	rest := r.Body
	if b.Whole {
		whole := &struct {
			bytes.Reader
			io.Closer
		}{Closer: rest}
		whole.Reset(b.Bytes)
		r.Body = whole
		return
	}
	r.Body = readCloser{io.MultiReader(bytes.NewReader(b.Bytes), rest), rest}
}

// Keep has the buffer not be given back: something else holds on to it.
func (b *Body) Keep() { b.room = nil }

// Release gives the buffer back, unless the body was replayed or is kept.
func (b *Body) Release() {
	if b.room == nil || cap(b.Bytes) > maxPooled {
		return
	}
	*b.room = b.Bytes[:0]
	buffers.Put(b.room)
	*b = Body{}
}

type readCloser struct {
	io.Reader
	io.Closer
}
