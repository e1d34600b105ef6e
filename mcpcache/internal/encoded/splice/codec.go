package splice

import (
	"context"
	"sync"
	"time"
)

// idleTime is how long the encoders of a Codec outlive its last Encode. They
// are large, but making them anew for each body costs more than encoding.
const idleTime = time.Minute

// Codec makes Encoded bodies, one at a time. It keeps its encoders, up to 10
// MiB, until it has been idle for a minute. The zero value is ready to use. It
// is safe for concurrent use, runs no goroutine and needs no closing.
type Codec struct {
	mu      sync.Mutex // held while a body is encoded
	idle    *worker    // nil before the first body, and after idleTime
	release *time.Timer
}

// Encode compresses body with gzip and zstd. What each of them makes is decoded
// again, with a prefix spliced on, and compared before it is returned; what is not
// smaller than the body is left out. It is work for the background: a list of
// 400 KB takes some 10 ms. It fails when ctx is done before the work is.
func (c *Codec) Encode(ctx context.Context, body []byte) (*Encoded, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	w := c.idle
	c.idle = nil // if encoding fails, nobody knows what state the worker is in
	if w == nil {
		var err error
		if w, err = newWorker(); err != nil {
			return nil, err
		}
	}
	e, err := w.encode(ctx, body)
	if err != nil {
		return nil, err
	}
	c.idle = w
	if c.release == nil {
		c.release = time.AfterFunc(idleTime, c.Release)
	} else {
		c.release.Reset(idleTime)
	}
	return e, nil
}

// Release lets go of the encoders until they are needed again. They take some 7 MB.
func (c *Codec) Release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle = nil
}
