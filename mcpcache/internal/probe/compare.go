package probe

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/terminal"
)

const (
	// maxName is how many characters of a name are shown, maxNames how many
	// names.
	maxName  = 80
	maxNames = 3
	// maxReason is how many characters of an error are shown.
	maxReason = 200
)

// Comparison is what two answers to the same question have in common.
type Comparison struct {
	// Same says that the items are the same, byte for byte and in order.
	Same bool `json:"same"`
	// Difference is what differs.
	Difference string `json:"difference,omitempty"`
	// Failure is why there was nothing to compare with.
	Failure string `json:"failure,omitempty"`
}

// compare says what is different in b.
func compare(a, b *message.Body) *Comparison {
	if a.Digest == b.Digest {
		return &Comparison{Same: true}
	}
	if len(a.Names) == 0 && len(b.Names) == 0 {
		return &Comparison{Difference: "the answers are not the same"}
	}
	before, after := itemsOf(a), itemsOf(b)
	var added, removed, changed []string
	for _, name := range b.Names {
		if item, known := before[name]; !known {
			added = append(added, name)
		} else if item != after[name] {
			changed = append(changed, name)
		}
	}
	for _, name := range a.Names {
		if _, known := after[name]; !known {
			removed = append(removed, name)
		}
	}
	if len(added)+len(removed)+len(changed) == 0 {
		if slices.Equal(a.Names, b.Names) {
			return &Comparison{Same: true}
		}
		return &Comparison{Difference: "the same items in another order"}
	}
	var parts []string
	if len(added)+len(removed) > 0 {
		parts = append(parts, fmt.Sprintf("%d items instead of %d", len(b.Names), len(a.Names)))
	}
	for _, d := range []struct {
		what  string
		names []string
	}{{"more", added}, {"missing", removed}, {"not the same", changed}} {
		if len(d.names) > 0 {
			parts = append(parts, d.what+": "+some(d.names, len(d.names)))
		}
	}
	return &Comparison{Difference: strings.Join(parts, "; ")}
}

// itemsOf returns the raw items by their names.
func itemsOf(b *message.Body) map[string]string {
	_, items, _, ok := b.Split()
	if !ok {
		return nil
	}
	named := make(map[string]string, len(items))
	for i, item := range items {
		named[b.Names[i]] = string(item)
	}
	return named
}

// some names the first few of so many.
func some(names []string, total int) string {
	shownNames := make([]string, 0, maxNames)
	for _, name := range names[:min(len(names), maxNames)] {
		shownNames = append(shownNames, shown(name))
	}
	text := strings.Join(shownNames, ", ")
	if more := total - len(shownNames); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// shown makes a name of the server's fit to be shown.
func shown(text string) string { return clipped(text, maxName) }

// clipped makes one short line of a text that the server may have written.
func clipped(text string, limit int) string {
	if most := limit * utf8.UTFMax; len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") // the rest would not be shown
	}
	return terminal.Shorten(strings.TrimSpace(terminal.Printable(text)), limit)
}

func orNone(text string) string {
	if text == "" {
		return "no content type"
	}
	return shown(text)
}
