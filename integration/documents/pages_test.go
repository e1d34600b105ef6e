package documents

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
)

// documents returns all pages but CONTRIBUTING.md and CHANGELOG.md, from the folder of the tests.
func documents(t *testing.T) []string {
	t.Helper()
	pages := []string{"../../README.md"}
	for _, pattern := range []string{"../../*/*.md", "../../*/*/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("no page %s: %v", pattern, err)
		}
		pages = append(pages, found...)
	}
	return pages
}

var (
	link     = regexp.MustCompile(`\]\(([^)#:]*)(?:#([^)]*))?\)`)
	heading  = regexp.MustCompile(`(?m)^#+ (.+)$`)
	noAnchor = regexp.MustCompile("[^a-z0-9 _-]")
)

// TestLinks follows the links between the documents, to files and to headings.
func TestLinks(t *testing.T) {
	for _, file := range append(documents(t), "../../CONTRIBUTING.md", "../../CHANGELOG.md") {
		for _, match := range link.FindAllStringSubmatch(fencedCode.ReplaceAllString(caddytest.ReadPage(t, file), ""), -1) {
			target := file
			if match[1] != "" {
				target = filepath.Join(filepath.Dir(file), match[1])
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: %v", file, err)
			} else if match[2] != "" && !slices.Contains(anchors(t, target), match[2]) {
				t.Errorf("%s: %s has no heading for #%s", file, target, match[2])
			}
		}
	}
}

// anchors returns what links to the headings of a page are called.
func anchors(t *testing.T, file string) (all []string) {
	t.Helper()
	for _, match := range heading.FindAllStringSubmatch(fencedCode.ReplaceAllString(caddytest.ReadPage(t, file), ""), -1) {
		name := noAnchor.ReplaceAllString(strings.ToLower(match[1]), "")
		all = append(all, strings.ReplaceAll(name, " ", "-"))
	}
	return all
}

// TestEveryPageIsLinked fails if a page cannot be reached from the first one, or
// an example from the page of the examples.
func TestEveryPageIsLinked(t *testing.T) {
	reached := []string{"../../README.md"}
	for i := 0; i < len(reached); i++ {
		for _, match := range link.FindAllStringSubmatch(caddytest.ReadPage(t, reached[i]), -1) {
			target := filepath.Join(filepath.Dir(reached[i]), match[1])
			if info, err := os.Stat(target); err == nil && info.IsDir() {
				target = filepath.Join(target, "README.md")
			}
			if filepath.Ext(target) == ".md" && !slices.Contains(reached, target) {
				reached = append(reached, target)
			}
		}
	}
	for _, file := range documents(t) {
		if !slices.Contains(reached, file) {
			t.Errorf("no link leads to %s", file)
		}
	}
}

const (
	firstPageLines  = 150
	wordsOfSentence = 30
)

// TestFirstPageIsOnePage fails if README.md grows: what is new belongs on the page
// of its folder.
func TestFirstPageIsOnePage(t *testing.T) {
	lines := strings.Split(strings.TrimSuffix(caddytest.ReadPage(t, "../../README.md"), "\n"), "\n")
	if len(lines) > firstPageLines {
		t.Errorf("README.md has %d lines, at most %d are allowed", len(lines), firstPageLines)
	}
	for i, line := range lines {
		if n := len([]rune(line)); n > 120 && !strings.HasPrefix(line, "|") {
			t.Errorf("README.md:%d has %d characters, at most 120 are allowed", i+1, n)
		}
	}
}

// TestSentencesAreShort fails if a sentence of a page takes more than one breath.
func TestSentencesAreShort(t *testing.T) {
	for _, file := range append(documents(t), "../../CHANGELOG.md") {
		for _, sentence := range sentences(caddytest.ReadPage(t, file)) {
			if n := len(strings.Fields(sentence)); n > wordsOfSentence {
				t.Errorf("%s: a sentence of %d words, at most %d are allowed: %s", file, n, wordsOfSentence, sentence)
			}
		}
	}
}

var (
	fencedCode  = regexp.MustCompile("(?ms)^```.*?^```$")
	inlineCode  = regexp.MustCompile("`[^`]*`")
	linkTarget  = regexp.MustCompile(`\]\([^)]*\)`)
	newItem     = regexp.MustCompile(`(?m)^\s*(?:[-*]|\d+\.|#+) |\|`)
	sentenceEnd = regexp.MustCompile(`[.!?][*_)]*(?:\s|$)`)
)

// sentences returns the sentences of a page: what ends with a full stop,
// a cell of a table, an item of a list or a paragraph. Code counts as one word.
func sentences(markdown string) (all []string) {
	text := fencedCode.ReplaceAllString(markdown, "\n\n")
	text = inlineCode.ReplaceAllString(text, "CODE")
	text = linkTarget.ReplaceAllString(text, "]")
	text = newItem.ReplaceAllString(text, "\n\n")
	for paragraph := range strings.SplitSeq(text, "\n\n") {
		if strings.HasPrefix(paragraph, "\t") {
			continue // commands
		}
		all = append(all, sentenceEnd.Split(paragraph, -1)...)
	}
	return slices.DeleteFunc(all, func(s string) bool { return strings.TrimSpace(s) == "" })
}

func TestSentences(t *testing.T) {
	got := sentences("# A title\n\nOne `two three` four. Five\n[six](seven.md)!\n\n\teight nine\n\n- ten\n- eleven: twelve\n\n```json\n{}\n```\n| thirteen | fourteen |\n")
	for i := range got {
		got[i] = strings.Join(strings.Fields(got[i]), " ")
	}
	want := []string{"A title", "One CODE four", "Five [six]", "ten", "eleven: twelve", "thirteen", "fourteen"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestReleases compares the headings of CHANGELOG.md with the commits of the releases. The newest one has no
// commit yet where it is being released.
func TestReleases(t *testing.T) {
	changes := caddytest.ReadPage(t, "../../CHANGELOG.md")
	var headings []string // the oldest first
	for i, line := range regexp.MustCompile(`(?m)^## .*$`).FindAllString(changes, -1) {
		if i == 0 {
			if line != "## [Unreleased]" {
				t.Errorf("the first heading is %q", line)
			}
			continue
		}
		found := regexp.MustCompile(`^## \[(\d+\.\d+\.\d+)\] - (\S+)$`).FindStringSubmatch(line)
		if found == nil {
			t.Fatalf("%q is not a version and a day", line)
		}
		if _, err := time.Parse(time.DateOnly, found[2]); err != nil {
			t.Errorf("%s: %v", line, err)
		}
		if link := "\n[" + found[1] + "]: https://github.com/caddy-mcp/mcp-cache/"; !strings.Contains(changes, link) {
			t.Errorf("%s has no link", line)
		}
		headings = append([]string{"v" + found[1]}, headings...)
	}
	if !slices.IsSortedFunc(headings, func(a, b string) int { return slices.Compare(numbers(t, a), numbers(t, b)) }) {
		t.Errorf("the versions are %q", headings)
	}
	newest := headings[len(headings)-1]
	if link := "\n[Unreleased]: https://github.com/caddy-mcp/mcp-cache/compare/" + newest + "...HEAD\n"; !strings.Contains(changes, link) {
		t.Errorf("[Unreleased] has no link to the changes since %s", newest)
	}
	var released []string
	for line := range strings.Lines(caddytest.ReadPage(t, "../../.ci/released")) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		found := regexp.MustCompile(`^(v\S+) [0-9a-f]{40}\n$`).FindStringSubmatch(line)
		if found == nil {
			t.Fatalf(".ci/released: %q is not a version and a commit", line)
		}
		released = append(released, found[1])
	}
	if !slices.Equal(headings, released) && !slices.Equal(headings[:len(headings)-1], released) {
		t.Errorf("CHANGELOG.md has the releases %q, .ci/released %q", headings, released)
	}
	if !strings.Contains(caddytest.ReadPage(t, "../../README.md"), "--with github.com/caddy-mcp/mcp-cache@"+newest+"\n") {
		t.Errorf("README.md does not build %s", newest)
	}
	text, err := exec.CommandContext(t.Context(), "../../.ci/notes", newest).Output()
	if err != nil || !strings.Contains(string(text), "\n### ") || regexp.MustCompile(`\]\([^h]|\n  |\n## `).Match(text) {
		t.Errorf("the text of the release is %q, error %v", text, err)
	}
}

// numbers returns those of a version such as v0.1.0.
func numbers(t *testing.T, version string) []int {
	t.Helper()
	n := make([]int, 3)
	if _, err := fmt.Sscanf(version, "v%d.%d.%d", &n[0], &n[1], &n[2]); err != nil {
		t.Fatalf("version %q: %v", version, err)
	}
	return n
}
