package message

import "github.com/go-json-experiment/json/jsontext"

// Method returns the method that a message names before its params, without a
// look at what follows: nil if there is none, or if the message is not JSON up
// to there. The message may be none that [Decode] accepts.
func Method(body []byte) []byte {
	s := scan(body)
	defer s.release()
	if s.kind() != jsontext.KindBeginObject || s.enter() != nil {
		return nil
	}
	for s.more() {
		name, err := s.value()
		if err != nil || string(name) == `"params"` {
			return nil
		}
		value, err := s.value()
		switch {
		case err != nil:
			return nil
		case string(name) == `"method"`:
			if !isString(value) {
				return nil
			}
			return unquote(value)
		}
	}
	return nil
}
