package splice

import (
	"context"
	"sync"
	"time"
)

// idleTime is how long the encoders of a Codec outlive its last Encode. They
// are large, but making them anew for each body costs more than encoding.
const idleTime = time.Minute

// Codec makes Encoded bodies. It keeps its encoders, up to 10 MiB for each
// Encode that ran at the same time, until it has been idle for a minute. It
// is safe for concurrent use, runs no goroutine and needs no closing.
type Codec struct {
	slots chan struct{}

	mu      sync.Mutex
	idle    []*worker
	release *time.Timer
}

// NewCodec returns a Codec that encodes at most n bodies at the same time, at
// least one.
func NewCodec(n int) *Codec {
	return &Codec{slots: make(chan struct{}, max(n, 1))}
}

// Encode compresses body with gzip and zstd. Each form is decoded again, with
// a prefix spliced on, and compared before it is returned; a form that is not
// smaller than the body is left out. It is work for the background: a list of
// 400 KB takes some 10 ms.
//
// It waits while too many others are encoding, and fails when ctx is done
// before the work is.
func (c *Codec) Encode(ctx context.Context, body []byte) (*Encoded, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	w := c.take()
	if w == nil {
		var err error
		if w, err = newWorker(); err != nil {
			return nil, err
		}
	}
	e, err := w.encode(ctx, body)
	if err != nil {
		// The worker is not put back: nobody knows what state it is in.
		return nil, err
	}
	c.put(w)
	return e, nil
}

// take returns an idle worker, nil if there is none.
func (c *Codec) take() *worker {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(c.idle)
	if n == 0 {
		return nil
	}
	w := c.idle[n-1]
	c.idle[n-1] = nil
	c.idle = c.idle[:n-1]
	return w
}

// put makes w idle, for the next take within the idle time.
func (c *Codec) put(w *worker) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle = append(c.idle, w)
	if c.release == nil {
		c.release = time.AfterFunc(idleTime, c.drop)
		return
	}
	c.release.Reset(idleTime)
}

// drop lets go of the idle workers.
func (c *Codec) drop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle = nil
}
