package main

import (
	"flag"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestMain lets the test's program be started in the roles of the program.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && roles[os.Args[1]] != nil {
		if err := run(os.Args[1:]); err != nil {
			os.Stderr.WriteString(err.Error() + "\n")
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

var measuring = flag.Bool("measure", false, "whether to measure all contenders")

// isMeasured reports whether a test measures a contender: one whose program is there.
func isMeasured(c contender) bool {
	_, err := exec.LookPath(redisProgram())
	return c.role != typeScriptRole && (c.role != fleetRole || err == nil)
}

// All contenders that need no other program, or only Redis, answer as they should, and are
// measured.
func TestMeasure(t *testing.T) {
	if !*measuring {
		t.Skip("measures: -measure")
	}
	o := &options{rounds: 1, duration: 50 * time.Millisecond, tools: []int{checkedTools}}
	o.only = namesOf(isMeasured)
	_, last := cores()
	r, err := measure(t.Context(), o, last)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range o.only {
		samples := r.samples[checkedTools][name]
		if len(samples) != 1 || !(samples[0].perCore > 0) || samples[0].bytes <= 0 || samples[0].p50 <= 0 {
			t.Errorf("%s: got %+v", name, samples)
		}
	}
	if plain, small := r.of(checkedTools, hit, size), r.of(checkedTools, "hit-zstd", size); small.median > plain.median/3 {
		t.Errorf("a compressed hit has %.0f bytes of %.0f", small.median, plain.median)
	}
	if same := r.of(checkedTools, ready, size); same != r.of(checkedTools, hit, size) {
		t.Errorf("ready bytes are %.0f, not those of a hit", same.median)
	}
	var b strings.Builder
	if err := r.write(&b); err != nil {
		t.Fatal(err)
	}
	for _, c := range contenders {
		if isMeasured(c) && !strings.Contains(b.String(), "\n| "+c.what+" | ") {
			t.Errorf("there is no row of %s:\n%s", c.name, &b)
		}
	}
	for _, p := range pairs {
		if p.over != "ts-sdk" && !strings.Contains(b.String(), "\n| "+p.what+" | ") {
			t.Errorf("there is no row of %s:\n%s", p.what, &b)
		}
	}
}

func size(s sample) float64 { return s.bytes }

// What does not answer as a contender should is not measured.
func TestVerify(t *testing.T) {
	_, last := cores()
	s, err := newStage(5, last)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	right, err := s.set(t.Context(), contenders[0])
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*target){
		"no hit":         func(t *target) { t.hit = true },
		"not compressed": func(t *target) { t.encoding = "gzip" },
		"another list":   func(t *target) { t.tools = 6 },
		"no call":        func(t *target) { t.call = echoTool },
		"nobody there":   func(t *target) { t.request = newRequest("127.0.0.1:1", "", "tools/list", "") },
	} {
		wrong := *right
		if change(&wrong); wrong.verify(t.Context()) == nil {
			t.Errorf("%s goes unnoticed", name)
		}
	}
}

func results50(hits, statics []float64) *results {
	r := &results{options: &options{tools: []int{checkedTools}, rounds: len(hits)}, samples: map[int]map[string][]sample{checkedTools: {}}}
	for name, values := range map[string][]float64{hit: hits, ready: statics} {
		for _, v := range values {
			r.samples[checkedTools][name] = append(r.samples[checkedTools][name], sample{perCore: v})
		}
	}
	return r
}

func TestCheck(t *testing.T) {
	for name, tt := range map[string]struct {
		hits, statics []float64
		ok            bool
	}{
		"enough in each round":      {[]float64{86, 86, 43}, []float64{100, 100, 50}, true},
		"enough in most rounds":     {[]float64{86, 86, 10}, []float64{100, 100, 120}, true},
		"enough in the best rounds": {[]float64{10, 20, 86}, []float64{100, 99, 98}, true},
		"too little":                {[]float64{84, 84, 84}, []float64{100, 100, 100}, false},
		"not measured":              {nil, []float64{100}, false},
	} {
		if err := results50(tt.hits, tt.statics).check(); (err == nil) != tt.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRatioIsOfRounds(t *testing.T) {
	r := results50([]float64{10, 40, 90}, []float64{10, 80, 100})
	if got := r.ratio(checkedTools, hit, ready); got != (figure{0.9, 0.5, 1}) {
		t.Errorf("got %+v", got)
	}
	if got := summarize([]float64{4, 1, 3, 2}); got != (figure{2.5, 1, 4}) {
		t.Errorf("got %+v of four values", got)
	}
}

func TestTable(t *testing.T) {
	r := results50([]float64{31234.4}, []float64{62468.8})
	r.options.only = []string{hit, ready}
	written := func() string {
		var b strings.Builder
		if err := r.write(&b); err != nil {
			t.Fatal(err)
		}
		_, tables, _ := strings.Cut(b.String(), "\n\n")
		return tables
	}
	rates := "| requests/s per core, `tools/list` | 50 tools |\n| --- | ---: |\n" +
		"| Caddy handler that writes ready bytes | 62,469 |\n| **hit** | 31,234 |\n\n"
	ratios := "| ratio within a round (wanted) | 50 tools |\n| --- | ---: |\n| hit / ready bytes | 0.50 (0.95) |\n\n"
	if got := written(); !strings.HasPrefix(got, rates+ratios+"| 50 tools | requests/s per core |") {
		t.Errorf("got\n%s, want\n%s", got, rates+ratios)
	}
	r.options.readme = true
	if got, want := written(), "| ratio within a round | 50 tools |\n| --- | ---: |\n| hit / ready bytes | 0.50 |\n"; got != want {
		t.Errorf("got\n%s, want\n%s", got, want)
	}
	for value, want := range map[float64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		if got := show(value, 0); got != want {
			t.Errorf("%v is shown as %s", value, got)
		}
	}
	if got := show(1234.567, 2); got != "1,234.57" {
		t.Errorf("got %s", got)
	}
}

func TestOptions(t *testing.T) {
	parse := func(args string) (*options, error) { return parseOptions(strings.Fields(args), io.Discard) }
	for _, args := range []string{
		"-rounds 0", "-duration 1ms", "-tools 5,x", "-tools 0", "-only hits", "-check -tools 5", "-check -only hit", "more", "-unknown",
		"-requests -1s", "-requests 48h", "-requests 1m -only hit", "-only program",
	} {
		if o, err := parse(args); err == nil {
			t.Errorf("%s: got %+v", args, o)
		}
	}
	o, err := parse("-short -only static,hit -rounds 9 -check")
	if err != nil || o.rounds != 9 || o.duration != 700*time.Millisecond || !slices.Equal(o.tools, []int{50}) ||
		!slices.Equal(o.only, []string{"static", "hit"}) || !o.check {
		t.Errorf("got %+v, error %v", o, err)
	}
	if o, err := parse("-readme"); err != nil || !slices.Equal(o.only, []string{hit, "proxy", "mcp-go", "fastmcp", "fastmcp-caching"}) || !slices.Equal(o.tools, []int{50}) {
		t.Errorf("the README has %+v, error %v", o, err)
	}
	if o, err := parse("-requests 10m -only program -check"); err != nil || o.requests != 10*time.Minute || !o.wants(programRole) || o.wants(typeScriptRole) {
		t.Errorf("got %+v, error %v", o, err)
	}
	if o, err := parse(""); err != nil || !o.wants("ts-sdk") || o.duration != 4*time.Second {
		t.Errorf("got %+v, error %v", o, err)
	}
}
