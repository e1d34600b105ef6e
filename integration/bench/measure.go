package main

import (
	"context"
	"math/rand/v2"
)

// results are all that was measured.
type results struct {
	options *options
	cores   cores
	// lists has the contenders for each length.
	lists   map[int][]*series
	calls   []*series
	first   []PairResult
	changes []changeResult
	memory  []memoryResult
}

// measure measures all that the options want.
func measure(ctx context.Context, o *options) (*results, error) {
	r := &results{options: o, cores: chooseCores(allowedCores()), lists: make(map[int][]*series)}
	load, err := start(ctx, r.cores.load, "load")
	if err != nil {
		return nil, err
	}
	defer load.stop()
	b := bench{load: load, random: rand.New(rand.NewPCG(1, 2))}
	p := newPorts()
	for _, n := range o.tools {
		err := b.on(r, p, n, func() (err error) {
			r.lists[n], err = b.run(ctx, listContenders())
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	err = b.on(r, p, checkedTools, func() error { return b.measureRest(ctx, r) })
	return r, err
}

// on runs a function on a new stage.
func (b *bench) on(r *results, p *ports, tools int, measure func() error) error {
	s, err := newStage(r.options, r.cores, p, tools)
	if err != nil {
		return err
	}
	defer s.close()
	b.stage = s
	return measure()
}

// measureRest measures what is not about lists of several lengths.
func (b *bench) measureRest(ctx context.Context, r *results) (err error) {
	if r.calls, err = b.run(ctx, callContenders()); err != nil {
		return err
	}
	if b.options.wants(nameFirstEvent) {
		if r.first, err = b.measureFirstEvent(ctx); err != nil {
			return err
		}
	}
	if b.options.wants(nameChanges) {
		if r.changes, err = b.measureChanges(ctx); err != nil {
			return err
		}
	}
	if b.options.wants(nameMemory) {
		r.memory, err = b.measureMemory(ctx)
	}
	return err
}
