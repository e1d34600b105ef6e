package caddytest

import (
	"strings"
	"testing"
)

// Check runs the command, which needs no running Caddy.
func Check(t testing.TB, want int, args ...string) (stdout, stderr string) {
	t.Helper()
	stdout, stderr, code := Run(t, append([]string{"mcp-cache", "check"}, args...)...)
	if code != want {
		t.Errorf("check %q ended with %d, want %d; it wrote\n%s%s", args, code, want, stdout, stderr)
	}
	return stdout, stderr
}

// Suggested returns what comes after the last heading.
func Suggested(t testing.TB, report string) string {
	t.Helper()
	_, caddyfile, found := strings.Cut(report, "\nCaddyfile (save it under that name; \"caddy run\" in the same folder starts it)\n\n")
	if !found {
		t.Fatalf("no Caddyfile is suggested:\n%s", report)
	}
	return caddyfile
}

// WantOneLine fails unless an error is one plain line that says so.
func WantOneLine(t testing.TB, complaint, says string) {
	t.Helper()
	if strings.Count(complaint, "\n") != 1 || !strings.HasPrefix(complaint, "Error: ") || !strings.Contains(complaint, says) {
		t.Errorf("the error is %q, want one line with %q", complaint, says)
	}
}

// Command runs one of our commands against the Caddy of the tests, and fails
// unless it ends as expected.
func Command(t testing.TB, want int, args ...string) (stdout, stderr string) {
	t.Helper()
	args = append([]string{"mcp-cache"}, args...)
	stdout, stderr, code := Run(t, append(args, "--address", Running.Admin)...)
	if code != want {
		t.Errorf("%q ended with %d, want %d; it wrote\n%s%s", args, code, want, stdout, stderr)
	}
	if want == 0 && stderr != "" {
		t.Errorf("%q complains: %s", args, stderr)
	}
	if want != 0 {
		WantOneLine(t, stderr, "")
	}
	return stdout, stderr
}

// Fields returns the words of the line that begins with that one.
func Fields(table, first string) []string {
	for line := range strings.Lines(table) {
		if words := strings.Fields(line); len(words) > 0 && words[0] == first {
			return words
		}
	}
	return nil
}
