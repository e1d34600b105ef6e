package command

import (
	"errors"
	"regexp"
	"strings"
)

// line is one of a Caddyfile, with the block that it begins, if there is one.
type line struct {
	words []string
	block []line
}

// words returns a line without a block.
func words(words ...string) line { return line{words: words} }

// writeCaddyfile returns the text of lines, as `caddy fmt` writes it.
func writeCaddyfile(lines ...line) (string, error) {
	var out strings.Builder
	for i, l := range lines {
		if i > 0 {
			out.WriteByte('\n')
		}
		if err := l.write(&out, ""); err != nil {
			return "", err
		}
	}
	return out.String(), nil
}

func (l line) write(out *strings.Builder, indent string) error {
	quoted := make([]string, len(l.words), len(l.words)+1)
	for i, word := range l.words {
		var err error
		if quoted[i], err = quote(word); err != nil {
			return err
		}
	}
	if len(l.block) > 0 {
		quoted = append(quoted, "{")
	}
	out.WriteString(indent + strings.Join(quoted, " ") + "\n")
	for _, inner := range l.block {
		if err := inner.write(out, indent+"\t"); err != nil {
			return err
		}
	}
	if len(l.block) > 0 {
		out.WriteString(indent + "}\n")
	}
	return nil
}

// plain matches words that need no quotes. Placeholders may be parts of them.
var plain = regexp.MustCompile(`^(?:[A-Za-z0-9_@%+=:,./-]|\{[A-Za-z0-9_.]+\})+$`)

// quote writes a word so that the reader of a Caddyfile takes it for one.
func quote(word string) (string, error) {
	switch {
	case strings.Contains(word, "{$"):
		return "", errors.New("{$ cannot be written in a Caddyfile")
	case plain.MatchString(word):
		return word, nil
	case !strings.ContainsAny(word, `"\`):
		return `"` + word + `"`, nil
	case !strings.Contains(word, "`"):
		return "`" + word + "`", nil
	case strings.Contains(word, `\"`) || strings.HasSuffix(word, `\`):
		return "", errors.New("a text with a backquote cannot be written in a Caddyfile if a backslash is at its end, or before a quote")
	}
	return `"` + strings.ReplaceAll(word, `"`, `\"`) + `"`, nil
}

// verbatim returns a text that placeholders are replaced in, and that means this one.
func verbatim(text string) string {
	return strings.NewReplacer("{", `\{`, "}", `\}`).Replace(text)
}
