package sse

import "bytes"

// Take returns the data of the first event in a recorded stream for which keep
// returns true, or nil. Nothing is copied: the data is put together in its place
// in the stream, which is of no other use afterwards.
func Take(stream []byte, keep func(data []byte) bool) []byte {
	stream = bytes.TrimPrefix(stream, bom)
	for len(stream) > 0 {
		var data []byte
		var whole bool
		if data, stream, whole = takeEvent(stream); whole && len(data) > 0 && keep(data[:len(data)-1]) {
			return data[: len(data)-1 : len(data)-1]
		}
	}
	return nil
}

// takeEvent returns the data of the first event, each line with an LF, and what
// follows it. It reports false if the blank line is missing. The data moves to
// the front: no line of it is longer than it was with the field's name.
func takeEvent(stream []byte) (data, rest []byte, whole bool) {
	data = stream[:0]
	for len(stream) > 0 {
		line, after, found := CutLine(stream)
		if !found {
			return nil, nil, false
		}
		stream = after
		if len(line) == 0 {
			return data, stream, true
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		if string(name) == "data" {
			data = append(append(data, bytes.TrimPrefix(value, []byte(" "))...), '\n')
		}
	}
	return nil, nil, false
}
