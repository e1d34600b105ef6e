package command

import (
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	caddyparse "github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// FuzzQuote writes words of all kinds: a Caddyfile's reader takes them for what they are.
func FuzzQuote(f *testing.F) {
	for _, word := range []string{
		"", "a", "{", "}", "a b", "{env.A}/b", `"`, "`", "\\", `\"`, "a`\"b", "a`\\b", "a`\\\"", "a`\\", "#", "<<A", "{$A}", "a\nb", "import", "{\"a\": [1]}",
		"\r", "\\\n", "<<A\nb\nA",
	} {
		f.Add(word)
	}
	f.Fuzz(func(t *testing.T, word string) {
		// What is no UTF-8 is none in JSON either.
		word = strings.ToValidUTF8(word, "")
		text, err := writeCaddyfile(line{[]string{"a", word, "b"}, []line{words("c")}})
		if err != nil {
			if !strings.Contains(word, "{$") && !strings.Contains(word, "`") {
				t.Errorf("%q: %v", word, err)
			}
			return
		}
		tokens, err := caddyparse.Tokenize([]byte(text), "Caddyfile")
		if err != nil {
			t.Fatalf("%q is written %s: %v", word, text, err)
		}
		d := caddyparse.NewDispenser(tokens)
		d.Next()
		if got := d.RemainingArgs(); len(got) != 2 || got[0] != word || got[1] != "b" {
			t.Errorf("%q is written %s, and read as %q", word, text, got)
		}
		if got := caddy.NewReplacer().ReplaceAll(verbatim(word), ""); got != word {
			t.Errorf("%q is replaced by %q", word, got)
		}
	})
}
