package main

import (
	"fmt"
	"io"
	"math"
	"runtime"
	"strconv"
	"strings"
)

// leastHit is what -check demands of a hit, as a part of the requests per
// second of a handler that writes ready bytes. It is less than the goal, so
// that a machine that is shared does not fail it.
const leastHit = 0.85

// check returns an error if a hit costs too much, by the median of rounds and by
// the best rounds: whatever else a machine does makes both rounds of a pair
// slower, but seldom by the same.
func (r *results) check() error {
	best := r.of(checkedTools, hit, perCore).most / r.of(checkedTools, ready, perCore).most
	if reached := max(r.ratio(checkedTools, hit, ready).median, best); math.IsNaN(reached) || reached < leastHit {
		return fmt.Errorf("checking hits: %s of ready bytes at %d tools, at least %s wanted",
			show(reached, 2), checkedTools, show(leastHit, 2))
	}
	return nil
}

// pair is a ratio of requests per second, and what is wanted of it.
type pair struct {
	what       string
	name, over string
	goals      map[int]float64 // by the length of the lists
}

var pairs = []pair{
	{"hit / ready bytes", hit, ready, map[int]float64{5: 0.95, 50: 0.95, 500: 0.95}},
	{"hit / `respond`", hit, "respond", map[int]float64{5: 1.4, 50: 4, 500: 10}},
	{"hit, a rule by header / hit", "hit-rule", hit, map[int]float64{5: 0.97, 50: 0.97, 500: 0.97}},
	{"hit, gzip / `encode` over a hit", "hit-gzip", "encode-gzip", map[int]float64{5: 1.6, 50: 5.5, 500: 45}},
	{"hit, zstd / `encode` over a hit", "hit-zstd", "encode-zstd", map[int]float64{5: 1.6, 50: 5.5, 500: 45}},
	{"hit, zstd / hit", "hit-zstd", hit, map[int]float64{500: 2.5}},
	{"hit / ready bytes, `metrics` on", "hit-metrics", "static-metrics", nil},
	{"hit / ready bytes, access log", "hit-log", "static-log", nil},
	{"hit, `store redis` / without", "hit-fleet", "hit-alone", map[int]float64{5: 0.96, 50: 0.96, 500: 0.96}},
	{"hit while the list changes / at rest", "hit-changing", hit, nil},
	{"hit / mcp-go server", hit, "mcp-go", map[int]float64{5: 2.6, 50: 14}},
	{"hit / `reverse_proxy`", hit, "proxy", nil},
	{"hit / FastMCP proxy", hit, "fastmcp", nil},
	{"hit / FastMCP proxy with its caching", hit, "fastmcp-caching", nil},
	{"hit, zstd / mcp-go server", "hit-zstd", "mcp-go", map[int]float64{500: 110}},
	{"hit / go-sdk server", hit, "go-sdk", map[int]float64{50: 14}},
	{"hit / TypeScript SDK server", hit, "ts-sdk", map[int]float64{50: 140}},
	{"small call / `reverse_proxy`", "call", "call-proxy", map[int]float64{50: 0.97}},
	{"1 MB call / `reverse_proxy`", "call-1mb", "call-1mb-proxy", map[int]float64{50: 0.98}},
	{"call answered with a stream / `reverse_proxy`", "stream", "stream-proxy", nil},
}

// write writes Markdown, as it stands on the page of this folder or, the ratios, on
// the first one.
func (r *results) write(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s/%s, %d cores; %d rounds of %s in turns, medians.\n",
		runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), r.options.rounds, r.options.duration)
	if r.options.readme {
		r.writeRatios(&b, r.options.tools)
	} else {
		r.writeRates(&b, r.options.tools)
		r.writeRatios(&b, r.options.tools)
		for _, tools := range r.options.tools {
			r.writeDetails(&b, tools)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeRates writes the requests per second of all that answer lists.
func (r *results) writeRates(b *strings.Builder, sizes []int) {
	t := newTable("requests/s per core, `tools/list`", sizes)
	for _, c := range contenders {
		if c.call != "" || !r.options.wants(c.name) {
			continue
		}
		row := []string{c.what}
		for _, tools := range sizes {
			row = append(row, show(r.of(tools, c.name, perCore).median, 0))
		}
		t = append(t, row)
	}
	t.write(b)
}

// writeRatios writes the ratios with what is wanted of them; for the README
// without that.
func (r *results) writeRatios(b *strings.Builder, sizes []int) {
	title := "ratio within a round"
	if !r.options.readme {
		title += " (wanted)"
	}
	t := newTable(title, sizes)
	for _, p := range pairs {
		row, known := []string{p.what}, false
		for _, tools := range sizes {
			f := r.ratio(tools, p.name, p.over)
			cell := show(f.median, 2)
			if goal, ok := p.goals[tools]; ok && !r.options.readme && !math.IsNaN(f.median) {
				cell += fmt.Sprintf(" (%g)", goal)
			}
			known = known || !math.IsNaN(f.median)
			row = append(row, cell)
		}
		if known {
			t = append(t, row)
		}
	}
	t.write(b)
}

// writeDetails writes what else was measured with lists of one length.
func (r *results) writeDetails(b *strings.Builder, tools int) {
	t := table{{fmt.Sprintf("%d tools", tools), "requests/s per core", "least–most", "CPU µs", "allocations", "bytes",
		"p50 µs", "p99 µs", "p99 µs, loaded"}}
	for _, c := range contenders {
		if len(r.samples[tools][c.name]) == 0 {
			continue
		}
		rate := r.of(tools, c.name, perCore)
		row := []string{c.what, show(rate.median, 0), show(rate.least, 0) + "–" + show(rate.most, 0), show(1e6/rate.median, 1)}
		for _, value := range []func(sample) float64{
			func(s sample) float64 { return s.mallocs },
			func(s sample) float64 { return s.bytes },
			func(s sample) float64 { return float64(s.p50.Microseconds()) },
			func(s sample) float64 { return float64(s.p99.Microseconds()) },
			func(s sample) float64 { return float64(s.loaded99.Microseconds()) },
		} {
			row = append(row, show(r.of(tools, c.name, value).median, 0))
		}
		t = append(t, row)
	}
	t.write(b)
}

// table is rows of cells, the first of which are its header. The first column is
// text, the others are figures.
type table [][]string

// newTable begins a table with a column for each length of the lists.
func newTable(title string, sizes []int) table {
	header := []string{title}
	for _, tools := range sizes {
		header = append(header, fmt.Sprintf("%d tools", tools))
	}
	return table{header}
}

// write writes the table as Markdown, after an empty line; nothing if it has no
// rows.
func (t table) write(b *strings.Builder) {
	if len(t) < 2 {
		return
	}
	b.WriteString("\n")
	for i, row := range t {
		b.WriteString("| " + strings.Join(row, " | ") + " |\n")
		if i == 0 {
			b.WriteString("| --- |" + strings.Repeat(" ---: |", len(row)-1) + "\n")
		}
	}
}

// show writes a number that is not negative with that many decimals and commas
// between thousands.
func show(value float64, decimals int) string {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return "–"
	}
	whole, rest, found := strings.Cut(strconv.FormatFloat(value, 'f', decimals, 64), ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if found {
		whole += "." + rest
	}
	return whole
}
