package redis

import (
	"fmt"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/mcpcache/stores"
)

// What the scripts publish is read, up to the longest message. Of a longer one there is the number, and no text.
func TestAnnouncements(t *testing.T) {
	longest := strings.Repeat("x", stores.MaxMessage)
	for text, want := range map[string]stores.Announcement{
		"a 7 one {} and more":  {Number: 7, Member: "one", Message: []byte("{} and more")},
		"a 7 one " + longest:   {Number: 7, Member: "one", Message: []byte(longest)},
		"a 7 one x" + longest:  {Number: 7, Member: "one"},
		"c 7":                  {Number: 7, Confirmed: true},
		"c 7 " + longest + "x": {Number: 7, Confirmed: true},
	} {
		if a, ok := parseAnnouncement(text); !ok || fmt.Sprint(a) != fmt.Sprint(want) {
			t.Errorf("%.40q is read as %.100q, %v", text, fmt.Sprint(a), ok)
		}
	}
	for _, text := range []string{"", "j", "a", "a 7", "a 7 one", "a -1 one x", "b 7 one x", longest} {
		if a, ok := parseAnnouncement(text); ok {
			t.Errorf("%.40q is read as %.100q", text, fmt.Sprint(a))
		}
	}
}
