package command

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

func TestSplitWords(t *testing.T) {
	for line, want := range map[string][]string{
		`npx -y @scope/server stdio`:   {"npx", "-y", "@scope/server", "stdio"},
		"  a\t b\n":                    {"a", "b"},
		`a 'b c' "d e" f\ g`:           {"a", "b c", "d e", "f g"},
		`a '' ""`:                      {"a", "", ""},
		`a"b"'c'd`:                     {"abcd"},
		`a 'b\' "c\"d\\e\$f\g" \'`:     {"a", `b\`, `c"d\e$f\g`, "'"},
		"a b\\\nc \\\n d \"e\\\nf\"":   {"a", "bc", "d", "ef"},
		`a "it's" '"'`:                 {"a", "it's", `"`},
		`a '$HOME' '*' '|' '#' 'grün'`: {"a", "$HOME", "*", "|", "#", "grün"},
	} {
		got, err := splitWords(line)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: got %q, %v, want %q", line, got, err, want)
		}
		// A shell agrees.
		out, err := exec.CommandContext(t.Context(), "sh", "-c", `printf '%s\n--\n' `+strings.TrimSpace(line)).Output()
		if shell := strings.Split(strings.TrimSuffix(string(out), "\n--\n"), "\n--\n"); err != nil || !slices.Equal(shell, want) {
			t.Errorf("%s: a shell makes %q of it, %v", line, shell, err)
		}
	}
	// What is more than quotes and backslashes is text.
	if got, err := splitWords("a $HOME `b` c|d > e # f ~ *"); err != nil || strings.Join(got, "+") != "a+$HOME+`b`+c|d+>+e+#+f+~+*" {
		t.Errorf("got %q, %v", got, err)
	}
	for line, want := range map[string]string{
		`a 'b`:    "the command has a quote that does not end",
		`a "b\"`:  "the command has a quote that does not end",
		`a b\`:    "the command ends with a backslash",
		" \t":     "the command is empty",
		`'' b`:    "the command is empty",
		"\\\n \n": "the command is empty",
	} {
		if got, err := splitWords(line); err == nil || err.Error() != want {
			t.Errorf("%q: got %q, %v", line, got, err)
		}
	}
}
