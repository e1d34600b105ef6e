package caddyfile

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig"
	caddyparse "github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	_ "github.com/caddyserver/caddy/v2/modules/standard" // the directives and options that the Caddyfiles use

	"github.com/caddy-mcp/mcp-cache/mcpcache"
)

var update = flag.Bool("update", false, "write what the Caddyfiles in testdata adapt to")

const (
	caseSeparator   = "\n==========\n"
	resultSeparator = "\n----------\n"
)

// golden is one Caddyfile and the JSON or the error that it must give.
type golden struct {
	input, want string
}

// isMistake tells whether the Caddyfile must be refused.
func (g golden) isMistake() bool { return !strings.HasPrefix(g.want, "{") }

// readGolden reads the cases of a golden file.
func readGolden(t testing.TB, file string) []golden {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var cases []golden
	for text := range strings.SplitSeq(strings.ReplaceAll(string(content), "\r\n", "\n"), caseSeparator) {
		input, want, found := strings.Cut(text, resultSeparator)
		if !found {
			t.Fatalf("%s: a case has no line of ten dashes", file)
		}
		cases = append(cases, golden{input: strings.TrimSpace(input) + "\n", want: strings.TrimSpace(want)})
	}
	return cases
}

func writeGolden(t *testing.T, file string, cases []golden) {
	t.Helper()
	var texts []string
	for _, c := range cases {
		texts = append(texts, strings.TrimSpace(c.input)+resultSeparator+c.want)
	}
	if err := os.WriteFile(file, []byte(strings.Join(texts, caseSeparator)+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}

// adapt returns the indented JSON of a Caddyfile, or the error's text.
func adapt(t *testing.T, input string) string {
	t.Helper()
	config, warnings, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(input), nil)
	if err != nil {
		return err.Error()
	}
	for _, warning := range warnings {
		t.Errorf("warning of %s:%d: %s", warning.File, warning.Line, warning.Message)
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, config, "", "\t"); err != nil {
		t.Fatal(err)
	}
	return indented.String()
}

func goldenFiles(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/*.caddyfiletest")
	if err != nil || len(files) == 0 {
		t.Fatal("no golden files:", err)
	}
	return files
}

// TestGolden adapts every Caddyfile in testdata. A file holds cases of one
// kind, with lines of ten equal signs between them: in *_mistakes all are
// refused, in the others all are accepted.
func TestGolden(t *testing.T) {
	for _, file := range goldenFiles(t) {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".caddyfiletest"), func(t *testing.T) {
			cases := readGolden(t, file)
			for i := range cases {
				c := &cases[i]
				got := adapt(t, c.input)
				if *update {
					c.want = got
				}
				if got != c.want {
					t.Errorf("got:\n%s\nwant:\n%s\nof:\n%s", got, c.want, c.input)
				}
				if c.isMistake() != strings.Contains(file, "_mistakes.") {
					t.Errorf("accepted and refused Caddyfiles must be in different files; this is in the wrong one:\n%s", c.input)
				}
				if formatted := string(caddyparse.Format([]byte(c.input))); formatted != c.input {
					t.Errorf("caddy fmt writes:\n%s\ninstead of:\n%s", formatted, c.input)
				}
			}
			if *update {
				writeGolden(t, file, cases)
			}
		})
	}
}

// directiveOptions returns the options that the block of a directive may have.
func directiveOptions() map[string]func(option) error {
	return newParser(httpcaddyfile.Helper{Dispenser: caddyparse.NewDispenser(nil)}, new(mcpcache.Handler)).options()
}

// TestEveryOptionIsGolden keeps the table of subdirectives and testdata
// together: each option is accepted in the file of its name, and each is
// refused twice, without arguments and when it is given a second time. Rules
// and servers are accepted a second time.
func TestEveryOptionIsGolden(t *testing.T) {
	for name := range directiveOptions() {
		repeats, used := name == "allow" || name == "deny" || name == "server", 0
		for _, c := range readGolden(t, "testdata/"+name+".caddyfiletest") {
			used = max(used, strings.Count(c.input, "\t"+name+" "))
		}
		if used == 0 || repeats && used == 1 {
			t.Errorf("%s is used %d times in its golden file", name, used)
		}
		var bare, twice bool
		for _, c := range readGolden(t, "testdata/"+name+"_mistakes.caddyfiletest") {
			bare = bare || strings.Contains(c.input, "\t"+name+"\n")
			twice = twice || strings.Contains(c.want, name+" already specified, at Caddyfile:")
		}
		if !bare || twice == repeats {
			t.Errorf("mistakes with %s: without arguments %t, given twice %t", name, bare, twice)
		}
	}
}

// TestMistakesTellWhere makes sure that every error names a line, and that none
// repeats a secret: the mistakes have the word in place of theirs.
func TestMistakesTellWhere(t *testing.T) {
	for _, file := range goldenFiles(t) {
		for _, c := range readGolden(t, file) {
			if !c.isMistake() {
				continue
			}
			if !strings.Contains(c.want, ", at Caddyfile:") {
				t.Errorf("%s: no file and line in %q", file, c.want)
			}
			if strings.Contains(strings.NewReplacer(" client_secret,", "", " client_secret_file,", "", " secret_file", "").Replace(c.want), "secret") {
				t.Errorf("%s: a secret in %q", file, c.want)
			}
		}
	}
}
