package exchange

import (
	"fmt"
	"slices"
	"testing"
)

// Handlers in front may append to a field or change its values in place. That
// concerns this answer's field only.
func TestHeaderValuesAreTheirOwn(t *testing.T) {
	h := pinnedFace(t, config{}, 50)
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
