package policy

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// hintLike finds what is meant for a hint.
var hintLike = regexp.MustCompile(`(?i)^!?hints?:`)

// checkMeant returns an error for a pattern that could be a glob, and most likely is
// meant for something else: a rule would silently be about other items.
func checkMeant(k revision.Kind, text string) error {
	if slices.Contains(revision.ListNames(), text) {
		return fmt.Errorf("%q is a kind, and a rule is about one: write a rule for each kind; what has that very name is %s", text, spelledOut(text))
	}
	if k != revision.Tools {
		return nil
	}
	hints := strings.Join(hintNames[:], ", ")
	switch {
	case slices.Contains(hintNames[:], text):
		return fmt.Errorf("%q is a hint: write %s%[1]s; a tool of that very name is %[3]s", text, hintPrefix, spelledOut(text))
	case strings.HasPrefix(text, "!") && hintLike.MatchString(text):
		return fmt.Errorf("%q: nothing negates a hint: deny tools by it; it is written %s and one of %s", text, hintPrefix, hints)
	case hintLike.MatchString(text):
		return fmt.Errorf("%q is not a hint: that is written %s and one of %s", text, hintPrefix, hints)
	}
	return nil
}

// spelledOut returns a glob that matches a name alone, and is not the name.
func spelledOut(name string) string {
	return name[:len(name)-1] + "[" + name[len(name)-1:] + "]"
}

// checkCharacters returns an error if a glob has a range or an escape that matches
// nothing, or one for the names of tools or prompts has what regular expressions and
// lists are made of, where it would stand for itself. Escaped, or in brackets, that is
// meant.
func checkCharacters(k revision.Kind, glob string) error {
	text := []rune(glob)
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\':
			if i++; i == len(text) {
				return errors.New(`it ends with \, which takes the next character as it is; \\ is a backslash`)
			}
			if next := text[i]; unicode.IsLetter(next) || unicode.IsDigit(next) {
				return fmt.Errorf(`it has \%c: this is a glob, not a regular expression, and \ takes the next character as it is, which that needs nothing for`, next)
			}
		case c == '[':
			end, err := checkClass(text[i:])
			if err != nil {
				return err
			}
			i += end
		case k == revision.Tools && c == ' ',
			(k == revision.Tools || k == revision.Prompts) && isForeign(c, i == 0, i == len(text)-1):
			return fmt.Errorf(`it has %q: this is a glob, not a regular expression or a list; ? stands for any character, \%[2]c for that one, and each name is an item of its own`, string(c), c)
		}
	}
	return nil
}

// isForeign reports whether a character belongs to regular expressions or lists.
func isForeign(c rune, first, last bool) bool {
	return strings.ContainsRune("()|,{}#", c) || first && (c == '^' || c == '!') || last && c == '$'
}

// checkClass checks the [...] that a text begins with, and returns where it ends.
func checkClass(text []rune) (end int, err error) {
	at := 1
	next := func() (c rune) {
		if at < len(text) && text[at] == '\\' {
			at++
		}
		if at >= len(text) {
			err = path.ErrBadPattern
			return 0
		}
		at++
		return text[at-1]
	}
	switch {
	case len(text) > 2 && text[1] == '[' && text[2] == ':':
		return 0, errors.New(`[[:...:]] is of regular expressions; a glob has ranges, such as [a-z]`)
	case at < len(text) && text[at] == '!':
		return 0, errors.New(`[!...] is [^...] here; in brackets \! is that character`)
	case at < len(text) && text[at] == '^':
		at++
	}
	for first := true; err == nil && (first || at >= len(text) || text[at] != ']'); first = false {
		low := next()
		if at >= len(text) || text[at] != '-' {
			continue
		}
		at++
		if high := next(); err == nil && high < low {
			return 0, fmt.Errorf("the range %c-%c is reversed, and matches nothing: write %[2]c-%[1]c", low, high)
		}
	}
	return at, err
}
