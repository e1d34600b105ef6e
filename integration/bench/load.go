package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// connections is how many a load has; as many requests are under way.
const connections = 32

// loadResult is what a load has seen.
type loadResult struct {
	requests int
	bytes    int64 // of all bodies, as they were sent
	elapsed  time.Duration
	p50, p99 time.Duration // from a request to the end of its answer
}

// drive sends requests over several connections, on each of them as soon as the
// last one is answered, until the time is up. An answer that is none ends it.
func drive(r *request, connections int, duration time.Duration) (loadResult, error) {
	lanes := make([]*lane, connections)
	for i := range lanes {
		w, err := r.wire(i)
		if err != nil {
			return loadResult{}, err
		}
		c, err := net.DialTimeout("tcp", r.addr, requestTimeout)
		if err != nil {
			return loadResult{}, fmt.Errorf("connecting: %w", err)
		}
		defer c.Close()
		lanes[i] = &lane{conn: c, in: bufio.NewReaderSize(c, 128<<10), request: w}
	}
	start := time.Now()
	var running sync.WaitGroup
	for _, l := range lanes {
		running.Go(func() { l.run(start.Add(duration)) })
	}
	running.Wait()
	result := loadResult{elapsed: time.Since(start)}
	var took []time.Duration
	for _, l := range lanes {
		if l.err != nil {
			return result, fmt.Errorf("driving load: %w", l.err)
		}
		result.bytes += l.bytes
		took = append(took, l.took...)
	}
	slices.Sort(took)
	result.requests, result.p50, result.p99 = len(took), percentile(took, 50), percentile(took, 99)
	return result, nil
}

// lane is one connection of a load. It writes ready bytes and keeps nothing of the
// answers: a load must be quicker than what it measures, and net/http's client is
// not.
type lane struct {
	conn    net.Conn
	in      *bufio.Reader
	request wire
	took    []time.Duration
	bytes   int64
	err     error
}

func (l *lane) run(end time.Time) {
	if l.err = l.conn.SetDeadline(end.Add(requestTimeout)); l.err != nil {
		return
	}
	for now := time.Now(); now.Before(end); {
		if _, l.err = l.conn.Write(l.request.raw); l.err != nil {
			return
		}
		n, err := readAnswer(l.in)
		if l.err = err; err != nil {
			return
		}
		l.bytes += n
		l.request.next()
		after := time.Now()
		l.took = append(l.took, after.Sub(now))
		now = after
	}
}

// readAnswer reads an answer to its end and returns the length of its body, as
// it was sent. One without success, or empty, is an error.
func readAnswer(in *bufio.Reader) (int64, error) {
	res, err := http.ReadResponse(in, nil)
	if err != nil {
		return 0, fmt.Errorf("reading answer: %w", err)
	}
	defer res.Body.Close()
	n, err := io.Copy(io.Discard, res.Body)
	switch {
	case err != nil:
		return 0, fmt.Errorf("reading body: %w", err)
	case res.StatusCode != http.StatusOK:
		return 0, errors.New("answer is " + res.Status)
	case n == 0:
		return 0, errors.New("answer is empty")
	}
	return n, nil
}
