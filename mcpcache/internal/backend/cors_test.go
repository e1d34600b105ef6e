package backend

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

func TestCORSIsBounded(t *testing.T) {
	var m CORS
	for i := range 10 * maxCORSOrigins {
		origin := fmt.Sprintf("http://%d.example", i)
		m.Learn(origin, http.Header{"Access-Control-Allow-Origin": {origin}})
		if c, ok := m.Of(origin); !ok || c.AllowOrigin != origin {
			t.Fatalf("%s: got %+v", origin, c)
		}
		if n := len(*m.origins.Load()); n > maxCORSOrigins {
			t.Fatalf("%d origins are remembered", n)
		}
	}
	if m.Learn(strings.Repeat("a", MaxPageRights+1), http.Header{}); len(*m.origins.Load()) > maxCORSOrigins {
		t.Error("too many")
	}
}
