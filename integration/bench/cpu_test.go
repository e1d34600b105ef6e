package main

import (
	"os"
	"runtime"
	"slices"
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	// A name may hold blanks and brackets.
	stat := "42 (a) b (c)) S 1 42 42 0 -1 4194560 1 0 0 0 150 50 0 0 20 0 8 0 1000 1 1"
	if got, err := parseStat([]byte(stat)); err != nil || got != 2*time.Second {
		t.Errorf("got %v and error %v, want 2s", got, err)
	}
	for _, bad := range []string{"", "42 (a) S 1", "42 (a) S 1 42 42 0 -1 4194560 1 0 0 0 x 50 0 0"} {
		if got, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("%q gives %v", bad, got)
		}
	}
}

func TestOwnProcess(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells")
	}
	if _, err := cpuTime(os.Getpid()); err != nil {
		t.Error(err)
	}
	if got, err := residentMemory(os.Getpid()); err != nil || got < 1<<20 {
		t.Errorf("memory is %d, error %v", got, err)
	}
	if len(allowedCores()) == 0 {
		t.Error("no cores are allowed")
	}
}

func TestParseCores(t *testing.T) {
	for list, want := range map[string][]int{
		"0": {0}, "0-2,5": {0, 1, 2, 5}, "": nil, "a-b": nil,
	} {
		if got := parseCores(list); !slices.Equal(got, want) {
			t.Errorf("%q: got %v, want %v", list, got, want)
		}
	}
}

func TestChooseCores(t *testing.T) {
	for _, c := range []struct {
		allowed []int
		want    cores
	}{
		{nil, cores{-1, -1, -1}}, {[]int{3}, cores{-1, -1, -1}},
		{[]int{2, 6}, cores{server: 6, load: 2, upstream: 2}},
		{[]int{0, 1, 2, 3}, cores{server: 3, load: 2, upstream: 1}},
	} {
		if got := chooseCores(c.allowed); got != c.want {
			t.Errorf("of %v: got %v, want %v", c.allowed, got, c.want)
		}
	}
}

func TestValue(t *testing.T) {
	const text = "Name:\tbench\nVmRSS:\t  123 kB\nVmRSSx:\t1\n"
	if got := value(text, "VmRSS"); got != "123 kB" {
		t.Errorf("got %q", got)
	}
	if got := value(text, "Vm"); got != "" {
		t.Errorf("got %q, want nothing", got)
	}
}
