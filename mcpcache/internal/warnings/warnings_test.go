package warnings

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

func TestRemarksAreLoggedOnceAndCounted(t *testing.T) {
	core, logs := observer.New(zap.WarnLevel)
	r := New(zap.New(core))
	for range 3 {
		r.Warn("refused", "origin", "https://a.example")
	}
	r.Warn("refused", "origin", "https://b.example")
	r.Warn("odd", "header", "X-New")
	want := []string{
		"refused (origin: https://a.example, 3 times)", "refused (origin: https://b.example, once)", "odd (header: X-New, once)",
	}
	if got := r.Texts(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if logs.Len() != 3 || logs.All()[0].ContextMap()["origin"] != "https://a.example" {
		t.Errorf("logged: %v", logs.All())
	}
}

// Whoever makes up values fills neither the log nor the memory, nor takes the room of other remarks.
func TestRemarksAreBounded(t *testing.T) {
	core, logs := observer.New(zap.WarnLevel)
	r := New(zap.New(core))
	for n := range 1000 {
		r.Warn("refused", "origin", fmt.Sprint(n, strings.Repeat("x", 10*maxValue)))
	}
	r.Warn("odd", "header", "X-New")
	texts := r.Texts()
	if len(texts) != MaxValues+2 || logs.Len() != MaxValues+1 {
		t.Fatalf("%d remarks are kept, %d logged", len(texts), logs.Len())
	}
	if others := texts[MaxValues]; others != fmt.Sprintf("refused (origin: others, %d times)", 1000-MaxValues) {
		t.Errorf("got %q", others)
	}
	for _, text := range texts {
		if len(text) > 2*maxValue {
			t.Errorf("a remark has %d bytes", len(text))
		}
	}
}
