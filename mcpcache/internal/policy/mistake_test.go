package policy

import (
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

func TestBadPatterns(t *testing.T) {
	for _, tt := range []struct {
		kind      revision.Kind
		text, say string
	}{
		{revision.Tools, "hint:readonly", "read_only, destructive, idempotent, open_world"},
		{revision.Prompts, "hint:read_only", "only tools have hints"},
		{revision.Tools, "a[", "syntax error in pattern"},
		{revision.Tools, `a\`, `it ends with \`},
		{revision.Tools, `*\`, `it ends with \`},
		{revision.Resources, `x:a\`, `it ends with \`},
		{revision.Tools, "", "empty"},
		{revision.Tools, "a\n", "control character"},
		{revision.Tools, "a\xff", "UTF-8"},
		{revision.Tools, strings.Repeat("a", maxPattern+1), "longer than 1024 bytes"},
	} {
		if _, err := ParsePattern(tt.kind, tt.text); err == nil || !strings.Contains(err.Error(), tt.say) {
			t.Errorf("%q: %v, want it to say %q", tt.text, err, tt.say)
		}
	}
	if _, err := ParsePattern(revision.Tools, strings.Repeat("a", maxPattern)); err != nil {
		t.Error(err)
	}
}

// TestMistakenPatterns has what could be globs, and is meant for something else: the
// errors say what to write instead.
func TestMistakenPatterns(t *testing.T) {
	const foreign = "this is a glob, not a regular expression or a list; ? stands for any character, "
	for _, tt := range []struct {
		kind      revision.Kind
		text, say string
	}{
		{revision.Tools, "prompts", "write a rule for each kind; what has that very name is prompt[s]"},
		{revision.Resources, "resource_templates", "write a rule for each kind"},
		{revision.Prompts, "prompts", "write a rule for each kind"},
		{revision.Tools, "read_only", "write hint:read_only; a tool of that very name is read_onl[y]"},
		{revision.Tools, "open_world", "write hint:open_world; a tool of that very name is open_worl[d]"},
		{revision.Tools, "Hint:read_only", "written hint: and one of read_only, destructive, idempotent, open_world"},
		{revision.Tools, "hints:read_only", "written hint: and one of"},
		{revision.Tools, "!hint:read_only", "nothing negates a hint: deny tools by it"},
		{revision.Tools, "!HINTS:", "nothing negates a hint"},
		{revision.Tools, "^get_*", `it has "^": ` + foreign + `\^ for that one`},
		{revision.Tools, "get_*$", `it has "$": ` + foreign + `\$ for that one`},
		{revision.Tools, "(get|set)_*", `it has "(": ` + foreign},
		{revision.Tools, "get)", `it has ")": ` + foreign},
		{revision.Prompts, "a|b", `it has "|": ` + foreign},
		{revision.Prompts, "a,b", `it has ",": ` + foreign},
		{revision.Tools, "{get,set}_*", `it has "{": ` + foreign},
		{revision.Tools, "a}", `it has "}": ` + foreign},
		{revision.Tools, "a#b", `it has "#": ` + foreign},
		{revision.Prompts, "!a", `it has "!": ` + foreign},
		{revision.Tools, "a b", `it has " ": ` + foreign},
		{revision.Tools, "[^a]|b", `it has "|": ` + foreign},
		{revision.Tools, `get_\d`, `it has \d: this is a glob`},
		{revision.Resources, `x:\w*`, `it has \w: this is a glob`},
		{revision.Prompts, "[[:alpha:]]*", "[[:...:]] is of regular expressions"},
		{revision.Tools, "[z-a]", "the range z-a is reversed, and matches nothing: write a-z"},
		{revision.Tools, "x*[^a-c9-0]", "the range 9-0 is reversed"},
		{revision.Resources, `x:[\]-\[]`, "the range ]-[ is reversed"},
		{revision.ResourceTemplates, "x:///[%7a-%61]", "the range z-a is reversed"},
		{revision.Tools, "[!a]*", "[!...] is [^...] here"},
	} {
		if _, err := ParsePattern(tt.kind, tt.text); err == nil || !strings.Contains(err.Error(), tt.say) {
			t.Errorf("%s %q: %v, want it to say %q", tt.kind, tt.text, err, tt.say)
		}
	}
	for text, name := range map[string]string{
		"prompt[s]": "prompts", "read_onl[y]": "read_only", "hin[t]:read_only": "hint:read_only", "[^a]*": "b", `\^a`: "^a", `a\$`: "a$",
		"a^b$c!": "a^b$c!", `\(a\|b\,\{\}\#\ \)`: "(a|b,{}# )", "[(|,{}# )]": "|", "[a-a]": "a", "[^^]": "a", `[\!a]`: "!",
		`\\`: `\`, "change:*": "change:x", "*-1": "a-1", "tools-[024]": "tools-2", "prompts_*": "prompts_a", "read_only_*": "read_only_a", "hinted": "hinted",
	} {
		p, err := ParsePattern(revision.Tools, text)
		if err != nil || p.isHint() || !glob(p.String(), name) {
			t.Errorf("%q: %v, want it to match %q", text, err, name)
		}
	}
	for kind, text := range map[revision.Kind]string{revision.Prompts: "two words", revision.Resources: "x:a(b),c|d#e", revision.ResourceTemplates: "x:///{a,b}"} {
		if _, err := ParsePattern(kind, text); err != nil {
			t.Errorf("%s %q: %v", kind, text, err)
		}
	}
}
