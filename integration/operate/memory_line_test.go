// The lists are large, and the race detector makes them larger.

//go:build !race

package operate

import (
	"io"
	"net/http"
	"testing"
)

// TestSlowReadersOfLargeLists has a caller read slowly what takes all the memory for lists that
// differ by caller. Whoever asks for another such list is told to try again. Whoever asks for the
// same one shares it.
func TestSlowReadersOfLargeLists(t *testing.T) {
	for name, crowd := range map[string]crowd{
		"one server, rules":                   {differ: true},
		"several servers, rules":              {differ: true, several: true},
		"several servers, lists of their own": {own: true, several: true},
	} {
		t.Run(name, func(t *testing.T) {
			crowd.callers, crowd.size = 2, 8<<20 // more than all buffers on the way
			c := newMeasuredCaddy(t, crowd, "memory 16MiB", "gate 1s")
			slow := c.asks(t, 0, http.StatusOK)
			if res := c.asks(t, 1, http.StatusServiceUnavailable); res.Header.Get("Retry-After") != "1" {
				t.Errorf("the other is not told when to try again: %v", res.Header)
			}
			c.finish(t, c.asks(t, 0, http.StatusOK))
			c.finish(t, slow)
			c.finish(t, c.asks(t, 1, http.StatusOK))
		})
	}
}

// asks has one caller list, and checks the status of the answer.
func (c *measuredCaddy) asks(t *testing.T, caller, status int) *http.Response {
	t.Helper()
	res, err := c.open(caller)
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != status {
		t.Fatalf("caller %d is answered %s, %v, want %d", caller, res.Status, res.Header, status)
	}
	return res
}

// finish reads the rest of an answer.
func (c *measuredCaddy) finish(t *testing.T, res *http.Response) {
	t.Helper()
	if n, err := io.Copy(io.Discard, res.Body); err != nil || n < int64(c.size-c.size/8) {
		t.Fatalf("read %d bytes of %d: %v", n, c.size, err)
	}
	res.Body.Close()
}
