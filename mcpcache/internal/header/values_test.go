package header

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
)

func TestMoreHeaderValuesThanRoom(t *testing.T) {
	var v Values
	h := make(http.Header)
	for n := range len(v.room) + 2 {
		v.Set(h, fmt.Sprint(n), fmt.Sprint("value ", n))
	}
	for n := range len(v.room) + 2 {
		if got := h[fmt.Sprint(n)]; !slices.Equal(got, []string{fmt.Sprint("value ", n)}) {
			t.Errorf("field %d is %q", n, got)
		}
	}
}

func TestVary(t *testing.T) {
	for name, c := range map[string]struct{ before, want []string }{
		"none":         {nil, []string{"Accept-Encoding"}},
		"another":      {[]string{"Origin"}, []string{"Origin", "Accept-Encoding"}},
		"others":       {[]string{"Origin, Accept", "Cookie"}, []string{"Origin, Accept", "Cookie", "Accept-Encoding"}},
		"already":      {[]string{"Accept-Encoding"}, []string{"Accept-Encoding"}},
		"among others": {[]string{"Origin , accept-encoding"}, []string{"Origin , accept-encoding"}},
		"everything":   {[]string{"*"}, []string{"*"}},
		"alike":        {[]string{"X-Accept-Encoding"}, []string{"X-Accept-Encoding", "Accept-Encoding"}},
	} {
		before := append(make([]string, 0, 4), c.before...) // has room that is not ours
		h := http.Header{}
		if c.before != nil {
			h["Vary"] = before
		}
		new(Values).Vary(h, "Accept-Encoding")
		if got := h["Vary"]; !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
		if spare := before[:len(before)+1][len(before)]; spare != "" {
			t.Errorf("%s: wrote %q into somebody else's slice", name, spare)
		}
	}
}
