package options

import (
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

func TestNone(t *testing.T) {
	for input, want := range map[string]string{
		"name":            "",
		"name {\n}":       "",
		"name folder":     "name takes no arguments, at Testfile:1",
		"name {\n x y\n}": `unrecognized subdirective "x"; there are none, at Testfile:2`,
	} {
		got := ""
		if err := None(caddyfile.NewTestDispenser(input)); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: %q, want %q", input, got, want)
		}
	}
}

func TestDurationOrOff(t *testing.T) {
	for input, want := range map[string]string{
		"name {\n x 90s\n}": "", "name {\n x off\n}": "",
		"name {\n x 0s\n}":    `invalid x "0s": want a duration of more than 0, or off, at Testfile:2`,
		"name {\n x never\n}": `invalid x "never": want a duration of more than 0, or off, at Testfile:2`,
		"name {\n x\n}":       "x takes one argument, not none, at Testfile:2",
	} {
		var d caddy.Duration
		if got := parse(input, DurationOrOff(&d)); got != want || want == "" && d != -1 && time.Duration(d) != 90*time.Second {
			t.Errorf("%q: %v, %q, want %q", input, d, got, want)
		}
	}
}

func TestCount(t *testing.T) {
	for input, want := range map[string]string{
		"name {\n x 7\n}": "",
		"name {\n x 8\n}": `invalid x "8": want a whole number from 1 to 7, at Testfile:2`,
		"name {\n x 0\n}": `invalid x "0": want a whole number from 1 to 7, at Testfile:2`,
		"name {\n x a\n}": `invalid x "a": want a whole number from 1 to 7, at Testfile:2`,
		"name {\n x\n}":   "x takes one argument, not none, at Testfile:2",
	} {
		var n int
		if got := parse(input, Count(&n, 7)); got != want || want == "" && n != 7 {
			t.Errorf("%q: %d, %q, want %q", input, n, got, want)
		}
	}
}

func TestSize(t *testing.T) {
	for input, want := range map[string]string{
		"name {\n x 2MiB\n}":    "",
		"name {\n x 1023KiB\n}": `invalid x "1023KiB": want a size of at least 1MiB, such as 64MiB, at Testfile:2`,
		"name {\n x 99EiB\n}":   `invalid x "99EiB": want a size of at least 1MiB, such as 64MiB, at Testfile:2`,
		"name {\n x much\n}":    `invalid x "much": want a size of at least 1MiB, such as 64MiB, at Testfile:2`,
		"name {\n x\n}":         "x takes one argument, not none, at Testfile:2",
	} {
		var n int64
		if got := parse(input, Size(&n, 1)); got != want || want == "" && n != 2<<20 {
			t.Errorf("%q: %d, %q, want %q", input, n, got, want)
		}
	}
}

func TestFlag(t *testing.T) {
	for input, want := range map[string]string{
		"name {\n x\n}":    "",
		"name {\n x on\n}": "x takes no arguments, at Testfile:2",
	} {
		set := false
		if got := parse(input, Flag(&set)); got != want || set != (want == "") {
			t.Errorf("%q: %t, %q, want %q", input, set, got, want)
		}
	}
}

func TestOneOf(t *testing.T) {
	for input, want := range map[string]string{
		"name {\n x old\n}":   "",
		"name {\n x older\n}": `invalid x "older": want old or new, at Testfile:2`,
		"name {\n x\n}":       "x takes one argument, not none, at Testfile:2",
	} {
		word := ""
		if got := parse(input, OneOf(&word, "old", "new")); got != want || want == "" && word != "old" {
			t.Errorf("%q: %q, %q, want %q", input, word, got, want)
		}
	}
}

// parse returns the error of reading an option x.
func parse(input string, set Setter) string {
	d := caddyfile.NewTestDispenser(input)
	d.Next()
	if err := Parse(d, map[string]Setter{"x": set}); err != nil {
		return err.Error()
	}
	return ""
}
