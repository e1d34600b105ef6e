package main

import (
	"fmt"
	"io"
	"math"
	"runtime"
	"time"
)

// write writes all tables.
func (r *results) write(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%s, %s/%s, cores %s; revision %s; %d rounds of %v; medians\n",
		runtime.Version(), runtime.GOOS, runtime.GOARCH, r.cores, r.options.revision, r.options.rounds, r.options.duration)
	if err != nil {
		return fmt.Errorf("writing report: %w", err)
	}
	for _, n := range r.options.tools {
		t := listTable(r.lists[n])
		if err := t.write(w, fmt.Sprintf("tools/list, %d tools", n)); err != nil {
			return err
		}
		if err := writeMissing(w, r.lists[n]); err != nil {
			return err
		}
	}
	for _, part := range []struct {
		title string
		table *table
	}{
		{"tools/call, forwarded", callTable(r.calls)},
		{"Time to the first event of a stream", firstTable(r.first)},
		{"Hits while the list changes every 100 ms", changeTable(r.changes)},
		{"10,000 partitions", memoryTable(r.memory)},
		{"Goals", r.goalTable()},
	} {
		if err := part.table.write(w, part.title); err != nil {
			return err
		}
	}
	if r.noisy() {
		_, err = io.WriteString(w, "\n≈: something else had the server's core in most rounds.\n")
	}
	return err
}

// writeMissing says why some were not measured.
func writeMissing(w io.Writer, all []*series) error {
	for _, s := range all {
		if s.missing == "" {
			continue
		}
		if _, err := fmt.Fprintf(w, "\n%s was not measured: %s.\n", s.what, s.missing); err != nil {
			return fmt.Errorf("writing report: %w", err)
		}
	}
	return nil
}

// noisy reports whether there is a series that was disturbed.
func (r *results) noisy() bool {
	for _, n := range r.options.tools {
		for _, s := range r.lists[n] {
			if s.noisy() {
				return true
			}
		}
	}
	for _, s := range r.calls {
		if s.noisy() {
			return true
		}
	}
	return false
}

func listTable(all []*series) *table {
	t := &table{header: []string{
		"", "requests/s per core", "least–most", "of ready bytes", "CPU µs", "allocations", "bytes", "upstream", "p50 µs", "p99 µs",
	}}
	static := find(all, nameStatic)
	for _, s := range all {
		t.add(append(s.cells(static), show(s.quantile(p50), 0), show(s.quantile(p99), 0))...)
	}
	return t
}

func callTable(all []*series) *table {
	t := &table{header: []string{
		"", "requests/s per core", "least–most", "of `reverse_proxy`", "CPU µs", "allocations", "bytes", "upstream", "p50 µs", "p99 µs",
	}}
	for _, s := range all {
		against := s
		switch s.name {
		case nameCall, nameCallHostKept:
			against = find(all, nameCallProxy)
		case nameCallLarge:
			against = find(all, nameCallLargeP)
		}
		t.add(append(s.cells(against), show(s.quantile(p50), 0), show(s.quantile(p99), 0))...)
	}
	return t
}

// cells are those that rows of lists and of calls have in common.
func (s *series) cells(against *series) []string {
	name := s.what
	if s.noisy() {
		name = "≈ " + name
	}
	rate := s.figure(sample.perCore)
	return []string{
		name, show(rate.median, 0), rate.span(0), show(ratio(s, against), 2),
		show(s.figure(func(x sample) float64 {
			if x.cpu == 0 {
				return math.NaN()
			}
			return divide(micros(x.cpu), float64(x.Requests))
		}).median, 1),
		show(s.mallocs(), 0),
		show(s.bytes(), 0),
		show(s.figure(func(x sample) float64 { return x.perRequest(x.upstream) }).median, 2),
	}
}

func (s *series) figure(of func(sample) float64) figure { return summarize(s.values(of)) }

// mallocs returns allocations per request.
func (s *series) mallocs() float64 {
	return s.figure(func(x sample) float64 { return x.perRequest(x.mallocs) }).median
}

// bytes returns the length of an answer's body on the wire.
func (s *series) bytes() float64 {
	return s.figure(func(x sample) float64 { return x.perRequest(x.Bytes) }).median
}

func p50(r LoadResult) time.Duration { return r.P50 }
func p99(r LoadResult) time.Duration { return r.P99 }

// quantile returns the median of a quantile of the latency, in microseconds.
func (s *series) quantile(of func(LoadResult) time.Duration) float64 {
	var values []float64
	for _, result := range s.latency {
		values = append(values, micros(of(result)))
	}
	return summarize(values).median
}

// ratio returns how many times the requests per second of another contender one
// has reached, as the median of rounds; no number if one was not measured.
func ratio(s, against *series) float64 {
	if s == nil || against == nil {
		return math.NaN()
	}
	return summarize(ratios(s.values(sample.perCore), against.values(sample.perCore))).median
}

// find returns the series of a contender, or nil if it was not measured.
func find(all []*series, name string) *series {
	for _, s := range all {
		if s.name == name && s.missing == "" {
			return s
		}
	}
	return nil
}

func firstTable(all []PairResult) *table {
	t := &table{header: []string{"", "p50 µs", "least–most"}}
	if len(all) == 0 {
		return t
	}
	for _, row := range []struct {
		what string
		of   func(PairResult) time.Duration
	}{
		{"`reverse_proxy`", func(p PairResult) time.Duration { return p.First[0] }},
		{"**`mcp_cache`**", func(p PairResult) time.Duration { return p.First[1] }},
		{"difference in pairs", difference},
	} {
		f := durations(all, row.of)
		t.add(row.what, show(f.median, 1), f.span(1))
	}
	return t
}

func difference(p PairResult) time.Duration { return p.Difference }

// durations returns the figure of one duration of all results, in microseconds.
func durations[R any](all []R, of func(R) time.Duration) figure {
	values := make([]float64, len(all))
	for i, one := range all {
		values[i] = micros(of(one))
	}
	return summarize(values)
}
