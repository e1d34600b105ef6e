package probe

import (
	"fmt"
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
	if a.Items == 0 && b.Items == 0 {
		return &Comparison{Difference: "the answers are not the same"}
	}
	d := message.Compare(a, b)
	if len(d.Added)+len(d.Removed)+len(d.Changed)+d.More == 0 {
		if a.ItemsDigest == b.ItemsDigest {
			return &Comparison{Same: true}
		}
		return &Comparison{Difference: "the same items in another order"}
	}
	var parts []string
	if len(d.Added)+len(d.Removed) > 0 {
		parts = append(parts, fmt.Sprintf("%d items instead of %d", b.Items, a.Items))
	}
	for _, part := range []struct {
		what  string
		names []string
	}{{"more", d.Added}, {"missing", d.Removed}, {"not the same", d.Changed}} {
		if len(part.names) > 0 {
			parts = append(parts, part.what+": "+some(part.names, len(part.names)))
		}
	}
	return &Comparison{Difference: strings.Join(parts, "; ")}
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
