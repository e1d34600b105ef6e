package documents

import (
	"bufio"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/dustin/go-humanize"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/mcpcache"
)

// documentedOption is what is written about an option of the directive.
type documentedOption struct {
	arguments string
	byDefault string // "" if there is none
}

var (
	tableRow    = regexp.MustCompile("^\\| `([a-z_]+) ([^`]*)` \\| (.+?) \\|([^|]*)\\|$")
	grammarLine = regexp.MustCompile(`^//\t\t([a-z_]+) +(.+?) +# (.*)$|^//\t\t([a-z_]+) +(.+)$`)
	grammarSays = regexp.MustCompile(`[Dd]efault: (all five|upstream 5m|the server's address|\S+?)(?:\.$|\. | |$)`)
)

// tableOptions reads the directive's table of options.
func tableOptions(t *testing.T) map[string]documentedOption {
	t.Helper()
	_, rest, begun := strings.Cut(caddytest.ReadPage(t, "../../caddyfile/README.md"), "\n## Options\n")
	section, _, ended := strings.Cut(rest, "\n#")
	if !begun || !ended {
		t.Fatal("the page has no section on options")
	}
	options := make(map[string]documentedOption)
	for line := range strings.Lines(section) {
		match := tableRow.FindStringSubmatch(strings.TrimSpace(line))
		if match == nil {
			continue
		}
		byDefault := strings.Trim(match[4], "` ")
		if byDefault == "none" {
			byDefault = ""
		}
		options[match[1]] = documentedOption{strings.ReplaceAll(match[2], `\|`, "|"), byDefault}
	}
	return options
}

// grammarOptions reads the grammar in the directive's documentation.
func grammarOptions(t *testing.T) map[string]documentedOption {
	t.Helper()
	f, err := os.Open("../../caddyfile/directive.go")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	options := make(map[string]documentedOption)
	for s := bufio.NewScanner(f); s.Scan(); {
		match := grammarLine.FindStringSubmatch(s.Text())
		if match == nil {
			continue
		}
		name, arguments := match[1]+match[4], strings.TrimSpace(match[2]+match[5])
		var byDefault string
		if says := grammarSays.FindStringSubmatch(match[3]); says != nil {
			byDefault = says[1]
		}
		options[name] = documentedOption{arguments, byDefault}
	}
	return options
}

func names(options map[string]documentedOption) []string {
	var all []string
	for name := range options {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// TestOptionsAreDocumented holds the page's table against the grammar, the
// parser and the handler's fields: the same options, arguments and defaults.
func TestOptionsAreDocumented(t *testing.T) {
	table, grammar := tableOptions(t), grammarOptions(t)
	if a, b := names(table), names(grammar); !slices.Equal(a, b) {
		t.Errorf("the page's options are %v, those of the grammar %v", a, b)
	}
	fields := handlerDefaults(t)
	for name, option := range table {
		if said := grammar[name]; said.arguments != option.arguments {
			t.Errorf("%s takes %s on the page, %s in the grammar", name, option.arguments, said.arguments)
		}
		if said := grammar[name].byDefault; said != option.byDefault {
			t.Errorf("%s is by default %q on the page, %q in the grammar", name, option.byDefault, said)
		}
		wantFieldDefault(t, fields, name, option.byDefault)
		source := ":8080 {\nmcp_cache http://127.0.0.1:3001/mcp {\n" + name + "\n}\n}"
		_, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(source), nil)
		if err != nil && strings.Contains(err.Error(), "unrecognized") {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The page names the fields that are called otherwise.
	want := append(names(table), "rules", "servers", "upstream", "admit_for", "scope_always", "stale_after_notice",
		"ttl_by_kind", "min_ttl_by_kind", "max_ttl_by_kind", "same_hosts")
	want = slices.DeleteFunc(want, func(name string) bool {
		return slices.Contains([]string{"reverse_proxy", "stdio", "allow", "deny", "server"}, name)
	})
	got := make([]string, 0, len(fields))
	for name := range fields {
		got = append(got, name)
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("the handler's fields are %v, want %v", got, want)
	}
}

// wantFieldDefault fails unless the documentation of the option's field says
// the same default as the page, in the words of Caddy's JSON.
func wantFieldDefault(t *testing.T, fields map[string]string, name, byDefault string) {
	t.Helper()
	want := map[string]string{name: byDefault}
	switch name {
	case "reverse_proxy", "stdio", "allow", "deny":
		return
	case "kinds":
		want[name] = "all of them"
	case "precompress":
		want[name] = map[string]string{"on": "true", "off": "false"}[byDefault]
	case "admit":
		who, how, _ := strings.Cut(byDefault, " ")
		want = map[string]string{"admit": who, "admit_for": how}
	default:
		if size, err := humanize.ParseBytes(byDefault); err == nil && strings.HasSuffix(byDefault, "iB") {
			want[name] = strconv.FormatUint(size, 10)
		}
	}
	for field, value := range want {
		if said := fields[field]; said != value {
			t.Errorf("%s is by default %q on the page, %q in the documentation of its field", field, value, said)
		}
	}
}

var fieldSays = regexp.MustCompile("Default: (`[^`]+`|all of them|the server's address|none|\\w+)")

// handlerDefaults returns the defaults that the documentation of the handler's
// fields names, by their JSON names.
func handlerDefaults(t *testing.T) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../../mcpcache/options.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	embedded := make(map[string]bool)
	for field := range reflect.TypeFor[mcpcache.Handler]().Fields() {
		embedded[field.Name] = field.Anonymous
	}
	defaults := make(map[string]string)
	ast.Inspect(file, func(n ast.Node) bool {
		if options, ok := n.(*ast.TypeSpec); ok {
			return embedded[options.Name.Name]
		}
		field, ok := n.(*ast.Field)
		if !ok || field.Tag == nil {
			return true
		}
		tag, err := strconv.Unquote(field.Tag.Value)
		if err != nil {
			t.Fatal(err)
		}
		name, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
		text := strings.Join(strings.Fields(field.Doc.Text()), " ")
		if text == "" {
			t.Errorf("the field %s is not documented", name)
		}
		defaults[name] = ""
		if says := fieldSays.FindStringSubmatch(text); says != nil && says[1] != "none" {
			defaults[name] = strings.Trim(says[1], "`")
		}
		return true
	})
	if exported := exportedFields(); len(defaults) != exported {
		t.Errorf("%d fields are documented, the handler has %d", len(defaults), exported)
	}
	return defaults
}

func exportedFields() (n int) {
	for _, field := range reflect.VisibleFields(reflect.TypeFor[mcpcache.Handler]()) {
		if field.IsExported() && !field.Anonymous {
			n++
		}
	}
	return n
}
