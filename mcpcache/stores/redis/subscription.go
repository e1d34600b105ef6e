package redis

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/caddy-mcp/mcp-cache/mcpcache/stores"
)

// subscription listens to one channel on a connection of its own.
type subscription struct {
	link      *link
	pubsub    *redis.PubSub
	listening func()
	hear      func(stores.Announcement)

	pings atomic.Int32 // that were sent since something was heard
}

const (
	// pingEvery is how often a subscription is sent a ping, and mostPings how many may be without
	// an answer. A connection that has gone silently is noticed by that.
	pingEvery = time.Second
	mostPings = 3
)

var errSilent = errors.New("the subscription is silent")

// run listens to a channel until the connection breaks, or ctx ends. It returns why.
func (l *subscription) run(ctx context.Context, channel string) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(ctx, func() { _ = l.pubsub.Close() }) // which ends what waits for a message
	defer func() {
		if stop() {
			_ = l.pubsub.Close()
		}
	}()
	err = l.link.careful(func() error { return l.pubsub.Subscribe(ctx, channel) })
	if err != nil {
		return err
	}
	go l.ping(ctx, cancel)
	err = l.link.careful(func() error { return l.listen(ctx) })
	if cause := context.Cause(ctx); errors.Is(cause, errSilent) {
		return cause
	}
	return err
}

// listen takes what comes.
func (l *subscription) listen(ctx context.Context) error {
	for {
		message, err := l.pubsub.Receive(ctx)
		if err != nil {
			return err
		}
		l.pings.Store(0)
		switch m := message.(type) {
		case *redis.Subscription:
			l.listening()
		case *redis.Message:
			if a, ok := parseAnnouncement(m.Payload); ok {
				l.hear(a)
			}
		case *redis.Pong:
		default:
			return fmt.Errorf("redis has sent a %T", message)
		}
	}
}

// ping sends pings, and ends the subscription if nothing comes back.
func (l *subscription) ping(ctx context.Context, end context.CancelCauseFunc) {
	ticker := time.NewTicker(pingEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if l.pings.Add(1) > mostPings {
			end(errSilent)
			return
		}
		if err := l.link.careful(func() error { return l.pubsub.Ping(ctx) }); err != nil {
			end(fmt.Errorf("%w: %w", errSilent, err))
			return
		}
	}
}
