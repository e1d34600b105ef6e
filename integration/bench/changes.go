package main

import (
	"context"
	"fmt"
	"time"
)

// changeEvery is how often a list changes that changes.
const changeEvery = 100 * time.Millisecond

// changeResult is one round of hits on a list, at rest and changing.
type changeResult struct{ rest, changing changeRound }

// changeRound is one of the two: under the load of all connections, and of one.
type changeRound struct {
	loaded, single LoadResult
	// fetches is how many requests reached the upstream.
	fetches int64
}

// measureChanges measures hits on a list at rest and on one that changes.
func (b *bench) measureChanges(ctx context.Context) ([]changeResult, error) {
	t, err := fromCaddy(plain, siteChanging, isHit(""))(ctx, b.stage)
	if err != nil {
		return nil, fmt.Errorf("setting up %s: %w", nameChanges, err)
	}
	t.upstream = b.processes["changing upstream"]
	var all []changeResult
	for round := range b.options.rounds {
		b.say(fmt.Sprintf("changes, round %d of %d", round+1, b.options.rounds))
		var result changeResult
		order := []*changeRound{&result.rest, &result.changing}
		if round%2 == 1 {
			order[0], order[1] = order[1], order[0]
		}
		for _, one := range order {
			every := time.Duration(0)
			if one == &result.changing {
				every = changeEvery
			}
			if err := b.changeRound(ctx, t, every, one); err != nil {
				return nil, fmt.Errorf("measuring %s: %w", nameChanges, err)
			}
		}
		all = append(all, result)
	}
	return all, nil
}

func (b *bench) changeRound(ctx context.Context, t *target, every time.Duration, result *changeRound) error {
	if err := t.upstream.call(ctx, startTimeout, "Change", every, &struct{}{}); err != nil {
		return err
	}
	if every == 0 {
		if _, err := await(ctx, t.addr, t.request, settleTimeout, isHit("")); err != nil {
			return err
		}
	}
	s, err := b.sample(ctx, t)
	if err != nil {
		return err
	}
	result.loaded, result.fetches = s.LoadResult, s.upstream
	result.single, err = b.drive(ctx, t, 1, b.options.duration)
	return err
}

func changeTable(all []changeResult) *table {
	t := &table{header: []string{"", "at rest", "changing", "ratio", "least–most"}}
	if len(all) == 0 {
		return t
	}
	for _, row := range []struct {
		what string
		of   func(changeRound) time.Duration
	}{
		{fmt.Sprintf("p99 µs, %d connections", connections), loadedP99},
		{"p99 µs, 1 connection", singleP99},
	} {
		rest := durations(all, func(c changeResult) time.Duration { return row.of(c.rest) })
		changing := durations(all, func(c changeResult) time.Duration { return row.of(c.changing) })
		f := changeRatio(all, row.of)
		t.add(row.what, show(rest.median, 0), show(changing.median, 0), show(f.median, 2), f.span(2))
	}
	var rest, changing []float64
	for _, c := range all {
		rest = append(rest, divide(float64(c.rest.fetches), c.rest.loaded.Elapsed.Seconds()))
		changing = append(changing, divide(float64(c.changing.fetches), c.changing.loaded.Elapsed.Seconds()))
	}
	t.add("upstream requests/s", show(summarize(rest).median, 1), show(summarize(changing).median, 1), "", "")
	return t
}

func loadedP99(c changeRound) time.Duration { return c.loaded.P99 }
func singleP99(c changeRound) time.Duration { return c.single.P99 }

// changeRatio returns how many times the latency at rest that of a changing
// list is, round by round.
func changeRatio(all []changeResult, of func(changeRound) time.Duration) figure {
	values := make([]float64, len(all))
	for i, c := range all {
		values[i] = divide(float64(of(c.changing)), float64(of(c.rest)))
	}
	return summarize(values)
}
