package message

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// Verdict is what the beginning of a message tells of it.
type Verdict uint8

const (
	// Undecided: the beginning does not tell.
	Undecided Verdict = iota
	// IsResult: it is a response with a result.
	IsResult
	// IsError: it is a response with an error.
	IsError
)

// Judge tells from its beginning what a message is, without a look at what
// follows the first member that tells. An array is judged by nothing.
func Judge(beginning []byte) Verdict {
	if bytes.HasPrefix(behindID(beginning), []byte(`"result":{`)) {
		return IsResult
	}
	return scanVerdict(beginning)
}

// scanVerdict is [Judge] for all that may be written otherwise.
func scanVerdict(beginning []byte) Verdict {
	s := scan(beginning)
	defer s.release()
	if s.kind() != jsontext.KindBeginObject || s.enter() != nil {
		return Undecided
	}
	for s.more() {
		name, err := s.value()
		if err != nil {
			return Undecided
		}
		if s.kind() != jsontext.KindNull { // that is absent
			switch string(name) {
			case `"result"`:
				return IsResult
			case `"error"`:
				return IsError
			case `"method"`:
				return Undecided
			}
		}
		value, err := s.value()
		if err != nil || string(name) == `"jsonrpc"` && string(value) != `"2.0"` && string(value) != "null" {
			return Undecided
		}
	}
	return Undecided
}

// ResponseID returns the raw id of a response from its beginning. It returns nil if the message is no response, or has
// its id behind the result.
func ResponseID(beginning []byte) (id []byte) {
	s := scan(beginning)
	defer s.release()
	if s.kind() != jsontext.KindBeginObject || s.enter() != nil {
		return nil
	}
	for s.more() {
		name, err := s.value()
		if err != nil {
			return nil
		}
		null := s.kind() == jsontext.KindNull // that is absent
		switch string(name) {
		case `"method"`:
			if !null {
				return nil
			}
		case `"result"`, `"error"`:
			if !null {
				return id // what follows is not there
			}
		}
		value, err := s.value()
		if err != nil {
			return nil
		}
		if string(name) == `"id"` && validID(wholeID(value)) {
			id = value
		}
	}
	return nil
}
