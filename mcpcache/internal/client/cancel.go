package client

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// leftFor is how long the answer to a request that was cancelled may still come.
const leftFor = time.Minute

// unanswered are the requests of a legacy session that have not been answered.
type unanswered struct {
	mu sync.Mutex
	// told says of each whether it has been cancelled.
	told    map[int64]bool
	closing bool
	telling sync.WaitGroup
}

// sendRequest sends a request, and waits for its answer for as long as ctx lasts.
//
// A legacy server does not take a closed connection for a cancellation (2025-11-25,
// "Sending Messages to the Server"), and some exit if they cannot deliver their answer
// (supergateway#165). So such a server is told that nobody waits any more, and the
// connection stays open for leftFor. A modern server is told by the connection's end,
// and initialize must not be cancelled ("Cancellation").
func (s *Session) sendRequest(ctx context.Context, id int64, r transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
	if s.client.Revision.Era() == revision.Modern || r.Method == string(mcp.MethodInitialize) {
		return s.transport.SendRequest(ctx, r)
	}
	sending, end := context.WithCancel(context.WithoutCancel(ctx))
	answered := make(chan struct{})
	var res *transport.JSONRPCResponse
	var err error
	s.unanswered.begin(id)
	go func() {
		defer close(answered)
		defer end()
		defer s.unanswered.end(id)
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("sending a request panicked: %v", p)
			}
		}()
		res, err = s.transport.SendRequest(sending, r)
	}()
	select {
	case <-answered:
		return res, err
	case <-ctx.Done():
		s.cancel(id)
		time.AfterFunc(leftFor, end)
		return nil, context.Cause(ctx)
	}
}

func (u *unanswered) begin(id int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.told == nil {
		u.told = make(map[int64]bool)
	}
	u.told[id] = false
}

func (u *unanswered) end(id int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.told, id)
}

// cancel tells the server that nobody waits for an answer any more, once.
func (s *Session) cancel(id int64) {
	u := &s.unanswered
	u.mu.Lock()
	defer u.mu.Unlock()
	if told, unanswered := u.told[id]; told || !unanswered || u.closing {
		return
	}
	u.told[id] = true
	u.telling.Go(func() {
		// Whether it was heard makes no difference here.
		_ = s.notify(s.life, "notifications/cancelled", map[string]any{"requestId": id, "reason": "no longer waited for"})
	})
}

// cancelAll cancels what has not been answered, and waits no longer than that until the
// server knows. It returns how long that took.
func (s *Session) cancelAll(within time.Duration) time.Duration {
	begun := time.Now()
	u := &s.unanswered
	u.mu.Lock()
	open := slices.Collect(maps.Keys(u.told))
	u.mu.Unlock()
	for _, id := range open {
		s.cancel(id)
	}
	u.mu.Lock()
	u.closing = true
	u.mu.Unlock()
	told := make(chan struct{})
	go func() {
		defer close(told)
		u.telling.Wait()
	}()
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-told:
	case <-timer.C:
	}
	return time.Since(begun)
}
