package terminal

import "testing"

func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"plain text":               "plain text",
		"two\nlines\tand\rmore":    "two lines and more",
		"\x1b[2J\x1b]0;title\x07x": "[2J]0;titlex",
		"c1 \u009b31m":             "c1 31m",
		"bidi \u202e\u2066":        "bidi ",
		"bad \xff utf-8":           "bad � utf-8",
		"täg 日本 😀":                 "täg 日本 😀",
	} {
		if got := Printable(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

func TestShorten(t *testing.T) {
	for text, want := range map[string]string{"äöü": "äöü", "äöüß": "äö…", "": ""} {
		if got := Shorten(text, 3); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}
