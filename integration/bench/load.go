package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Load drives load, in a process of its own. Its methods are called by
// [net/rpc].
type Load struct{}

// LoadJob says what load to drive.
type LoadJob struct {
	Addr        string
	Request     Request
	Connections int
	Duration    time.Duration
	// Requests is after how many a connection ends before the time is up; 0
	// for no number.
	Requests int
}

// LoadResult is what a load has seen.
type LoadResult struct {
	Requests int
	// Bytes are those of all bodies, as they were sent.
	Bytes int64
	// Elapsed is the time from the first request to the last answer.
	Elapsed time.Duration
	// P50 and P99 are of the time from a request to the end of its answer.
	P50, P99 time.Duration
}

// Run sends requests over several connections, on each of them as soon as the
// last one is answered, until the time or their number is up. One that fails, or an answer that
// is none, ends it.
func (Load) Run(job LoadJob, result *LoadResult) error {
	ctx, cancel := context.WithTimeout(context.Background(), job.Duration+requestTimeout)
	defer cancel()
	lanes := make([]*lane, job.Connections)
	for i := range lanes {
		c, err := dial(ctx, job.Addr)
		if err != nil {
			return err
		}
		defer c.close()
		lanes[i] = &lane{conn: c, request: job.Request.clone(i)}
	}
	start := time.Now()
	var running sync.WaitGroup
	for _, l := range lanes {
		running.Go(func() { l.run(start.Add(job.Duration), job.Requests) })
	}
	running.Wait()
	result.Elapsed = time.Since(start)
	return result.collect(lanes)
}

func (r *LoadResult) collect(lanes []*lane) error {
	var all []time.Duration
	for _, l := range lanes {
		if l.err != nil {
			return l.err
		}
		all = append(all, l.took...)
		r.Bytes += l.bytes
	}
	slices.Sort(all)
	r.Requests, r.P50, r.P99 = len(all), percentile(all, 50), percentile(all, 99)
	return nil
}

// lane is one connection of a load.
type lane struct {
	conn    *conn
	request Request
	took    []time.Duration
	bytes   int64
	err     error
}

func (l *lane) run(end time.Time, limit int) {
	defer func() {
		if r := recover(); r != nil {
			l.err = fmt.Errorf("driving load: %v", r)
		}
	}()
	for now := time.Now(); now.Before(end) && (limit == 0 || len(l.took) < limit); {
		answer, err := l.conn.exchange(l.request.Raw, now)
		if err == nil {
			err = answer.failure()
		}
		if err != nil {
			l.err = err
			return
		}
		l.bytes += answer.bytes
		l.request.next()
		after := time.Now()
		l.took = append(l.took, after.Sub(now))
		now = after
	}
}

// failure is what is wrong with an answer.
func (r reply) failure() error {
	if r.status != http.StatusOK {
		return fmt.Errorf("answer has status %d", r.status)
	}
	if r.bytes == 0 {
		return errors.New("answer is empty")
	}
	return nil
}

// PairJob says which two servers to compare.
type PairJob struct {
	Addrs    [2]string
	Requests [2]Request
	Pairs    int
}

// PairResult is how long the first bytes of the bodies took, as medians.
// Difference is the median of what the second took longer in each pair.
type PairResult struct {
	First      [2]time.Duration
	Difference time.Duration
}

// Pair sends the same to two servers in turns.
func (Load) Pair(job PairJob, result *PairResult) error {
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	var conns [2]*conn
	for i, addr := range job.Addrs {
		c, err := dial(ctx, addr)
		if err != nil {
			return err
		}
		defer c.close()
		conns[i] = c
	}
	var took [2][]time.Duration
	var differences []time.Duration
	for n := range job.Pairs {
		var pair [2]time.Duration
		for turn := range 2 {
			i := (turn + n) % 2 // who comes second has the warmer machine
			now := time.Now()
			answer, err := conns[i].exchange(job.Requests[i].Raw, now)
			if err == nil {
				err = answer.failure()
			}
			if err != nil {
				return err
			}
			pair[i] = answer.first.Sub(now)
			job.Requests[i].next()
		}
		took[0], took[1] = append(took[0], pair[0]), append(took[1], pair[1])
		differences = append(differences, pair[1]-pair[0])
	}
	result.First = [2]time.Duration{median(took[0]), median(took[1])}
	result.Difference = median(differences)
	return nil
}

func runLoad([]string) error {
	return serveControl(Load{})
}
