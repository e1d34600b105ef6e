package upstream

import (
	"context"
	"sync"
)

// Outcome remembers why reading the answer to a request failed. A client
// library may report no more than that no answer came.
type Outcome struct {
	mu  sync.Mutex
	err error
}

type outcomeKey struct{}

// WithOutcome returns a context whose requests record in the outcome why
// reading their answers failed.
func WithOutcome(ctx context.Context) (context.Context, *Outcome) {
	o := new(Outcome)
	return context.WithValue(ctx, outcomeKey{}, o), o
}

func outcomeOf(ctx context.Context) *Outcome {
	o, _ := ctx.Value(outcomeKey{}).(*Outcome)
	return o
}

// Fail records why reading the answer to a request of that context failed.
func Fail(ctx context.Context, err error) { outcomeOf(ctx).set(err) }

// Err returns the first failure.
func (o *Outcome) Err() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

func (o *Outcome) set(err error) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		o.err = err
	}
}
