package sse

import "testing"

func TestEndsEvent(t *testing.T) {
	for text, want := range map[string]bool{
		"": false, "\n": false, "\r\n": false, "\r": false, "data: x\n": false, "data: x\r\n": false, "data: x\n\nd": false,
		"\n\n": true, "\r\r": true, "\r\n\r\n": true, "\n\r\n": true, "\r\n\n": true, "\r\n\r": true, "\n\r": true,
	} {
		if got := EndsEvent([]byte(text)); got != want {
			t.Errorf("%q: got %t", text, got)
		}
	}
}
