package header

import (
	"net/http"
	"testing"
)

func TestCoding(t *testing.T) {
	for want, values := range map[string][]string{"": {" Identity"}, "br": {"BR "}, "gzip,br": {"gzip", "br"}} {
		if got := Coding(http.Header{"Content-Encoding": values}); got != want {
			t.Errorf("%q: got %q", values, got)
		}
	}
	if got := Coding(nil); got != "" {
		t.Errorf("without the field: got %q", got)
	}
}
