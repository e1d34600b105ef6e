package probe

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

const (
	initialized = "notifications/initialized"

	// patience is how long the answer to a notification is waited for, as the cache does.
	patience = 2 * time.Second

	unanswered = "none"
)

// announce tells the server that the session is open. Any 2xx acknowledges that, and so
// does silence: some servers never answer. The request is not dropped before the session
// is closed, as a server may take that for the end of the session.
func (c *conversation) announce(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	type result struct {
		answer *answer
		err    error
	}
	results := make(chan result, 1)
	go func() {
		defer close(results)
		defer func() {
			if p := recover(); p != nil {
				results <- result{err: fmt.Errorf("sending %s: panic: %v", initialized, p)}
			}
		}()
		a, err := c.notify(ctx)
		results <- result{a, err}
	}()
	wait := time.NewTimer(min(c.patience, c.timeout))
	defer wait.Stop()
	select {
	case <-wait.C:
		c.acknowledgement = unanswered
		c.dropAnnounced = func() {
			cancel()
			for range results { // until it has ended
			}
		}
		return nil
	case r := <-results:
		cancel()
		switch {
		case r.err != nil:
			return r.err
		case r.answer.status < 200 || r.answer.status > 299:
			return &refusedError{initialized, r.answer}
		case r.answer.status != http.StatusAccepted:
			c.acknowledgement = fmt.Sprintf("HTTP %d (%s)", r.answer.status, orNone(r.answer.media))
		}
		return nil
	}
}

// notify sends the notification and waits for the head of an answer.
func (c *conversation) notify(ctx context.Context) (*answer, error) {
	res, err := c.send(ctx, http.MethodPost, c.url, c.headers(""), []byte(`{"jsonrpc":"2.0","method":"`+initialized+`"}`))
	if err != nil {
		return nil, fmt.Errorf("sending %s: %w", initialized, err)
	}
	_ = res.Body.Close()
	return c.newAnswer(res), nil
}

// judgeAcknowledgement is about servers that have their own way to acknowledge.
func judgeAcknowledgement(r *Report) []Finding {
	return r.perEra(func(e *Era) string {
		switch e.Acknowledgement {
		case "":
			return ""
		case unanswered:
			return "It does not answer " + initialized + "{era}. The cache goes on after " + plural(int(patience/time.Second), "second", "seconds") +
				", so each of its sessions opens that much later. Have the server answer 202."
		}
		return "It acknowledges " + initialized + " with " + e.Acknowledgement + "{era}, not with 202. The cache takes any 2xx."
	}, Note)
}
