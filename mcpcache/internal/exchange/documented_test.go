package exchange

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/identity"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/outcome"
)

// bypasses returns every constant of the type bypass but understood, from the
// source.
func bypasses(t *testing.T) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "exchange.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if ident, ok := spec.Type.(*ast.Ident); !ok || ident.Name != "bypass" {
			return true
		}
		for _, value := range spec.Values {
			text, err := strconv.Unquote(value.(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			if text != "" {
				found = append(found, text)
			}
		}
		return true
	})
	slices.Sort(found)
	return found
}

var (
	statusRow = regexp.MustCompile("(?m)^\\| `(mcp_cache; [^`]+)` \\|")
	quoted    = regexp.MustCompile("`([^`]+)`")
	toolkits  = regexp.MustCompile("detail=(partial|routed|own|refused)$")
)

// TestEveryStatusIsDocumented holds the page's lists of what Cache-Status says
// against what the code can say: nothing is missing, and nothing too much.
func TestEveryStatusIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	s := outcome.NewCacheStatus("mcp_cache")
	entry := &cache.Entry{}
	can := []string{
		string(appendHit(nil, s, lookupResult{entry: entry}, 297*time.Second)),
		string(appendHit(nil, s, lookupResult{entry: entry, stale: true}, -12*time.Second)),
		string(appendHit(nil, s, lookupResult{entry: entry, fetched: true}, 0)),
		forwarded(s, understood, true),
		forwarded(s, understood, false),
		forwarded(s, understood, false) + keptApart("…"),
		forwarded(s, "…", false),
		s.Own("denied"),
		s.Own("origin"),
	}
	var says []string
	for _, row := range statusRow.FindAllStringSubmatch(page, -1) {
		if !toolkits.MatchString(row[1]) {
			says = append(says, row[1])
		}
	}
	slices.Sort(can)
	slices.Sort(says)
	if !slices.Equal(can, says) {
		t.Errorf("the page says\n%s\nthe code can say\n%s", strings.Join(says, "\n"), strings.Join(can, "\n"))
	}

	if got, want := detailsIn(t, page, "| detail of a bypass | why |"), bypasses(t); len(want) < 10 || !slices.Equal(got, want) {
		t.Errorf("the page has the details %q, the code %q", got, want)
	}
	want := []string{string(identity.Header), string(identity.Host), string(identity.Partition), string(identity.Query)}
	if got := detailsIn(t, page, "| detail of a miss |"); !slices.Equal(got, want) {
		t.Errorf("the page has the details %q of a miss, the code %q", got, want)
	}
}

// detailsIn returns the details in the table whose first line begins so, in order.
func detailsIn(t *testing.T, page, head string) []string {
	t.Helper()
	_, table, found := strings.Cut(page, "\n"+head)
	_, table, ruled := strings.Cut(table, "\n| --- | --- |\n")
	if !found || !ruled {
		t.Fatalf("the page has no table %s", head)
	}
	table, _, _ = strings.Cut(table, "\n\n")
	details := make(map[string]bool)
	for line := range strings.Lines(table) {
		first, _, _ := strings.Cut(strings.TrimPrefix(line, "|"), "|")
		for _, word := range quoted.FindAllStringSubmatch(first, -1) {
			details[word[1]] = true
		}
	}
	return slices.Sorted(maps.Keys(details))
}
