package client

import (
	"context"
	"sync"
)

// outcome remembers why reading the answer to a request failed. The client library may
// report only that there was no answer.
type outcome struct {
	mu  sync.Mutex
	err error
}

type outcomeKey struct{}

// withOutcome returns a context whose requests record in the outcome why
// reading their answers failed.
func withOutcome(ctx context.Context) (context.Context, *outcome) {
	o := new(outcome)
	return context.WithValue(ctx, outcomeKey{}, o), o
}

func outcomeOf(ctx context.Context) *outcome {
	o, _ := ctx.Value(outcomeKey{}).(*outcome)
	return o
}

// fail records why reading the answer to a request of that context failed.
func fail(ctx context.Context, err error) { outcomeOf(ctx).set(err) }

// Err returns the first failure.
func (o *outcome) Err() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

func (o *outcome) set(err error) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		o.err = err
	}
}
