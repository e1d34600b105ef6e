package mcpcache

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
)

// Handlers in front may append to a field or change its values in place. That
// concerns this answer's field only.
func TestHeaderValuesAreTheirOwn(t *testing.T) {
	h := pinnedHandler(t, 50)
	h.compress()
	want := ask(t, h, nil, listRequest("gzip")).Header().Clone()
	meddled := ask(t, h, nil, listRequest("gzip")).Header()
	for name, values := range meddled {
		if len(values) != cap(values) {
			t.Errorf("%s has room for more values", name)
		}
		meddled[name] = append(values, "more")
		for i := range values {
			values[i] = "changed"
		}
	}
	for name, values := range meddled {
		if !slices.Equal(values, []string{want.Get(name), "more"}) {
			t.Errorf("%s is %q: fields share their values", name, values)
		}
	}
	if got := ask(t, h, nil, listRequest("gzip")).Header(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the next answer has %v, want %v", got, want)
	}
}

func TestMoreHeaderValuesThanRoom(t *testing.T) {
	var v headerValues
	h := make(http.Header)
	for n := range len(v.room) + 2 {
		v.set(h, fmt.Sprint(n), fmt.Sprint("value ", n))
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
		new(headerValues).vary(h, "Accept-Encoding")
		if got := h["Vary"]; !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
		if spare := before[:len(before)+1][len(before)]; spare != "" {
			t.Errorf("%s: wrote %q into somebody else's slice", name, spare)
		}
	}
}
