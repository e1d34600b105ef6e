package sse

import "bytes"

// Find returns the data of the first event in a recorded stream for which keep
// returns true, or nil. The data is a copy.
func Find(stream []byte, keep func(data []byte) bool) []byte {
	r := NewReader(bytes.NewReader(stream), len(stream))
	for {
		event, err := r.Next()
		if err != nil {
			return nil
		}
		if keep(event.Data) {
			return event.Data
		}
	}
}
