package report

import (
	"testing"
)

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"a*", "abc", true},
		{"a*", "ba", false},
		{"*note*", "file:///notes/1", true},
		{"file:??/x", "file:///x", true},
		{"file://*", "file:///a/b/c", true},
		{"get_[a-c]", "get_b", true},
		{"a/b", "a/b", true},
		{`a\*`, "a*", true},
	} {
		if got, err := matches(c.pattern, c.name); err != nil || got != c.want {
			t.Errorf("%q matches %q: %v, %v", c.pattern, c.name, got, err)
		}
	}
	for _, bad := range []string{"[", "a[", `\`} {
		if _, err := matches(bad, ""); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}
