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

// EndsEvent reports whether an event ends where b does: with an empty line.
func EndsEvent(b []byte) bool {
	line := bytes.TrimSuffix(b, []byte("\n"))
	if len(line) == len(b) || bytes.HasSuffix(line, []byte("\r")) {
		line = bytes.TrimSuffix(line, []byte("\r"))
	}
	return len(line) < len(b) && (bytes.HasSuffix(line, []byte("\n")) || bytes.HasSuffix(line, []byte("\r")))
}
