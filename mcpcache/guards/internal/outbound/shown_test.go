package outbound

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/redact"
)

func TestClip(t *testing.T) {
	for text, want := range map[string]string{
		"":                                    "",
		"a\nb\x1b[1m":                         "a?b?[1m",
		strings.Repeat("x", longestForeign):   strings.Repeat("x", longestForeign),
		strings.Repeat("x", longestForeign+1): strings.Repeat("x", longestForeign) + "...",
		strings.Repeat("x", 8<<20):            strings.Repeat("x", longestForeign) + "...",
	} {
		if got := Clip(text); got != want {
			t.Errorf("%d bytes became %q", len(text), got)
		}
	}
}

func TestBrief(t *testing.T) {
	for size, want := range map[int]int{longestProblem: longestProblem, longestProblem + 1: longestProblem + len("..."), 8 << 20: longestProblem + len("...")} {
		err := errors.Join(errors.New(strings.Repeat("x", size-len("\n")-len(os.ErrClosed.Error()))), os.ErrClosed)
		if got := brief(t.Context(), err); len(got.Error()) != want || !errors.Is(got, os.ErrClosed) {
			t.Errorf("%d bytes became %d", size, len(got.Error()))
		}
	}
}

// What is hidden is hidden before anything is cut.
func TestShownHasNoHalfOfASecret(t *testing.T) {
	secret := "planted-" + strings.Repeat("0123456789", longestProblem/5)
	ctx := Hiding(t.Context(), redact.New(secret))
	if got := Shown(ctx, "https://x/"+secret); got != "https://x/[hidden]" {
		t.Errorf("shown as %q", got)
	}
	if got := brief(ctx, errors.New("x"+secret+"y")); got.Error() != "x[hidden]y" {
		t.Errorf("shown as %q", got)
	}
}
