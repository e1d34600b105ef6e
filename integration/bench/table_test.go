package main

import (
	"math"
	"strings"
	"testing"
)

func TestTable(t *testing.T) {
	table := table{header: []string{"", "µs"}}
	table.add("≈ short", "1,234.5")
	table.add("a longer name", none)
	var b strings.Builder
	if err := table.write(&b, "Title"); err != nil {
		t.Fatal(err)
	}
	want := `
### Title

|               |      µs |
| ------------- | ------: |
| ≈ short       | 1,234.5 |
| a longer name |     n/a |
`
	if b.String() != want {
		t.Errorf("got%s\nwant%s", b.String(), want)
	}
}

func TestEmptyTable(t *testing.T) {
	var b strings.Builder
	if err := (&table{header: []string{"a"}}).write(&b, "Title"); err != nil || b.Len() != 0 {
		t.Errorf("got %q and error %v, want nothing", b.String(), err)
	}
}

func TestShow(t *testing.T) {
	for _, c := range []struct {
		value    float64
		decimals int
		want     string
	}{
		{0, 0, "0"}, {999, 0, "999"}, {1000, 0, "1,000"}, {1234567.891, 2, "1,234,567.89"}, {0.954, 2, "0.95"},
		{-12.34, 1, "-12.3"}, {-0.01, 1, "0.0"}, {-1000, 0, "-1,000"}, {999.5, 0, "1,000"},
		{math.NaN(), 2, none}, {math.Inf(1), 2, none},
	} {
		if got := show(c.value, c.decimals); got != c.want {
			t.Errorf("%v with %d decimals is %q, want %q", c.value, c.decimals, got, c.want)
		}
	}
}

func TestSpan(t *testing.T) {
	if got := (figure{2, 1000, 3}).span(0); got != "1,000–3" {
		t.Errorf("got %q", got)
	}
	if got := unknown.span(0); got != none {
		t.Errorf("got %q, want %q", got, none)
	}
}
