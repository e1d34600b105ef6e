package policy

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// Item is what a rule looks at.
type Item struct {
	// Name is the name of a tool or prompt, a URI or a URI template.
	Name string
	// Full is the name with the whole of its server's prefix, where Name was shortened; ""
	// elsewhere. A rule that names either names the item.
	Full string
	// Hints are what a tool says of itself, where rules speak of that.
	Hints Hints
}

// Hints are what a tool says of itself, a bit for each of hintNames: see
// [message.Annotations].
type Hints uint8

// HintsOf returns the hints of a tool, as written.
func HintsOf(tool []byte) (h Hints) {
	said := message.AnnotationsOf(tool)
	for i, is := range [...]bool{said.ReadOnly, said.Destructive, said.Idempotent, said.OpenWorld} {
		if is {
			h |= 1 << i
		}
	}
	return h
}

// hintNames are the words of the configuration.
var hintNames = [...]string{"read_only", "destructive", "idempotent", "open_world"}

// hintPrefix is what patterns that are hints begin with.
const hintPrefix = "hint:"

// Pattern names items: by a glob over their names, or by a hint.
type Pattern struct {
	text string
	// meant is the text without percent-encoding.
	meant string
	// loose is the glob in lower case where it says nothing certain of what is scheme
	// and host, which have no case; "" elsewhere.
	loose string
	hint  Hints // 0: text is a glob
}

// wild are the characters of a glob that do not stand for themselves.
const wild = `*?[\`

// maxPattern is how long a pattern may be, in bytes.
const maxPattern = 1024

// ParsePattern reads a pattern for items of that kind: a glob as [path.Match] has
// them, but that * and ? match slashes too; or, for tools, hint: and one of
// read_only, destructive, idempotent, open_world. An error says what to write instead,
// also of what could be a glob, and is most likely meant for something else.
func ParsePattern(k revision.Kind, text string) (Pattern, error) {
	if name, ok := strings.CutPrefix(text, hintPrefix); ok && k == revision.Tools {
		i := slices.Index(hintNames[:], name)
		if i < 0 {
			return Pattern{}, fmt.Errorf("unknown hint %q; hints: %s", name, strings.Join(hintNames[:], ", "))
		}
		return Pattern{text: text, hint: 1 << i}, nil
	} else if ok {
		return Pattern{}, fmt.Errorf("%s: only tools have hints", text)
	}
	if err := checkMeant(k, text); err != nil {
		return Pattern{}, err
	}
	glob := text
	if k != revision.Tools && k != revision.Prompts {
		glob = foldAuthority(normal(text))
		if !strings.ContainsAny(glob, wild) {
			glob = withPath(glob)
		}
	}
	err := checkCharacters(k, glob)
	if err == nil {
		err = checkGlob(glob)
	}
	if err != nil {
		return Pattern{}, fmt.Errorf("glob %q: %w", text, err)
	}
	if k == revision.Tools || k == revision.Prompts {
		return Pattern{text: glob, meant: glob}, nil
	}
	p := Pattern{text: glob, meant: decodeGlob(glob)}
	if !hasCertainAuthority(glob) {
		p.loose = strings.ToLower(p.meant)
	}
	return p, nil
}

func checkGlob(text string) error {
	switch {
	case text == "":
		return errors.New("it is empty")
	case len(text) > maxPattern:
		return fmt.Errorf("it is longer than %d bytes", maxPattern)
	case !plain(text):
		return errors.New("it has a control character, or is not UTF-8")
	}
	_, err := path.Match(flat(text), "")
	return err
}

// String returns the pattern as it is compared: that of a URI is in its normal form,
// with scheme and host in lower case.
func (p Pattern) String() string { return p.text }

// IsGlob reports whether the pattern may name several items by their names.
func (p Pattern) IsGlob() bool { return p.hint == 0 && strings.ContainsAny(p.text, wild) }

// isHint reports whether the pattern is a hint.
func (p Pattern) isHint() bool { return p.hint != 0 }

// matches reports whether a rule of that effect names an item. Servers differ in
// whether a URI with percent-encoding is another than the one without: what is denied
// is so in either spelling, and what is allowed has to be so in both. What is denied is so
// also with another query or user, and, where a glob does not say what of it is the host, in
// whatever case.
func (p Pattern) matches(e Effect, i spelled) bool {
	if p.isHint() {
		return i.Hints&p.hint != 0
	}
	if e == Deny && (p.loose != "" && glob(p.loose, strings.ToLower(i.meant)) || i.bare != i.meant && glob(p.meant, i.bare)) {
		return true
	}
	if i.Full != "" && glob(p.text, i.Full) {
		return true
	}
	written := glob(p.text, i.Name)
	if p.meant == p.text && i.meant == i.Name || written == (e == Deny) {
		return written
	}
	return glob(p.meant, i.meant)
}

// glob reports whether a plain name is what a pattern says. Names are no paths,
// although URIs look like some: * and ? take slashes too.
func glob(pattern, name string) bool {
	matched, err := path.Match(flat(pattern), flat(name))
	return err == nil && matched
}

func flat(s string) string { return strings.ReplaceAll(s, "/", "\x00") }

// plain reports whether a text is valid UTF-8 without control characters.
func plain(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl)
}
