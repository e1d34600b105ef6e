package main

import (
	"math"
	"strings"
	"testing"
	"time"
)

// measured returns a series in which every round took a second of the server's
// core for that many requests.
func measured(name string, requests ...int) *series {
	s := &series{contender: contender{name: name, what: name}}
	for _, n := range requests {
		s.samples = append(s.samples, sample{
			LoadResult: LoadResult{Requests: n, Bytes: int64(n) * 100, Elapsed: time.Second},
			cpu:        time.Second, mallocs: int64(n) * 7, upstream: -1,
		})
		s.latency = append(s.latency, LoadResult{P50: 80 * time.Microsecond, P99: 300 * time.Microsecond})
	}
	return s
}

// fullResults are results with lists of those series at 50 tools.
func fullResults(all ...*series) *results {
	return &results{options: &options{tools: []int{checkedTools}}, lists: map[int][]*series{checkedTools: all}}
}

func TestDisturbedRoundsDoNotCount(t *testing.T) {
	s := measured(nameHit, 10, 20, 30)
	s.samples[0].disturbed = true
	if got := s.figure(sample.perCore); got != (figure{25, 20, 30}) || s.noisy() {
		t.Errorf("one of three disturbed: got %v, noisy %v", got, s.noisy())
	}
	s.samples[1].disturbed = true
	if got := s.figure(sample.perCore); got != (figure{20, 10, 30}) || !s.noisy() {
		t.Errorf("two of three disturbed: got %v, noisy %v", got, s.noisy())
	}
}

func TestPerCore(t *testing.T) {
	s := sample{LoadResult: LoadResult{Requests: 100, Elapsed: 2 * time.Second}}
	if got := s.perCore(); got != 50 {
		t.Errorf("without processor time: got %v, want 50", got)
	}
	s.cpu = time.Second
	if got := s.perCore(); got != 100 {
		t.Errorf("with processor time: got %v, want 100", got)
	}
}

func TestRatioIsOfRounds(t *testing.T) {
	// The machine was slower from round to round; the ratio stayed.
	if got := ratio(measured("a", 300, 200, 100), measured("b", 150, 100, 50)); got != 2 {
		t.Errorf("got %v, want 2", got)
	}
	if got := ratio(measured("a", 1), nil); !math.IsNaN(got) {
		t.Errorf("against nothing: got %v, want no number", got)
	}
}

func TestListTable(t *testing.T) {
	gone := &series{contender: contender{name: nameHitZstd, what: "zstd"}, missing: "it is not there"}
	r := fullResults(measured(nameStatic, 40000), measured(nameHit, 38000), gone)
	var b strings.Builder
	if err := r.write(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"### tools/list, 50 tools",
		"| hit    |              38,000 | 38,000–38,000 |           0.95 |   26.3 |           7 |   100 |      n/a |     80 |    300 |",
		"| zstd   |                 n/a |",
		"zstd was not measured: it is not there.",
		"| hit / handler of ready bytes, 50 tools ",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	if strings.Contains(b.String(), "### tools/call") || strings.Contains(b.String(), "≈") {
		t.Errorf("there is something that was not measured, or undisturbed rounds are doubted:\n%s", b.String())
	}
}

func TestCallTableComparesWithTheProxy(t *testing.T) {
	table := callTable([]*series{
		measured(nameCallProxy, 100), measured(nameCall, 99), measured(nameCallHostKept, 105),
		measured(nameCallLargeP, 10), measured(nameCallLarge, 7),
	})
	for i, want := range []string{"1.00", "0.99", "1.05", "1.00", "0.70"} {
		if got := table.rows[i][3]; got != want {
			t.Errorf("row %d: got %s, want %s", i, got, want)
		}
	}
}

func TestSmallTables(t *testing.T) {
	us := time.Microsecond
	first := firstTable([]PairResult{{First: [2]time.Duration{500 * us, 530 * us}, Difference: 25 * us}})
	if got := first.rows[2][1]; got != "25.0" {
		t.Errorf("difference is %s, want 25.0", got)
	}
	at := func(p99 time.Duration, fetches int64) changeRound {
		return changeRound{loaded: LoadResult{P99: p99, Elapsed: time.Second}, single: LoadResult{P99: p99 / 2}, fetches: fetches}
	}
	changes := changeTable([]changeResult{{at(100*us, 0), at(110*us, 20)}, {at(100*us, 0), at(130*us, 20)}})
	if got := strings.Join(changes.rows[0], " "); !strings.HasSuffix(got, " 100 120 1.20 1.10–1.30") {
		t.Errorf("got %q", got)
	}
	if got := changes.rows[2][2]; got != "20.0" {
		t.Errorf("upstream requests: got %s, want 20.0", got)
	}
	memory := memoryTable([]memoryResult{{"lists", 3 << 20, 5 << 19, 1}})
	if got := strings.Join(memory.rows[0], " "); got != "lists 3.0 2.5 100 %" {
		t.Errorf("got %q", got)
	}
}
