package main

import (
	"context"
	"fmt"
)

// pairs is how many streams are opened by way of either in a round.
const pairs = 500

// measureFirstEvent measures how long the first event of a stream takes by way
// of a plain proxy and of the cache.
func (b *bench) measureFirstEvent(ctx context.Context) ([]PairResult, error) {
	job := PairJob{Pairs: pairs}
	for i, site := range []string{siteProxy, siteHit} {
		t, err := b.callTarget(ctx, site, streamTool, "")
		if err != nil {
			return nil, fmt.Errorf("setting up %s: %w", nameFirstEvent, err)
		}
		job.Addrs[i], job.Requests[i] = t.addr, t.request
	}
	var all []PairResult
	for round := range b.options.rounds {
		b.say(fmt.Sprintf("first event, round %d of %d", round+1, b.options.rounds))
		var result PairResult
		if err := b.load.call(ctx, 2*requestTimeout, "Pair", job, &result); err != nil {
			return nil, fmt.Errorf("measuring %s: %w", nameFirstEvent, err)
		}
		all = append(all, result)
	}
	return all, nil
}
