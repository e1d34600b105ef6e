package message

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// Method returns the method that a message names before its params, without a
// look at what follows: nil if there is none, or if the message is not JSON up
// to there. The message may be none that [Decode] accepts.
func Method(body []byte) []byte {
	if value, ok := bytes.CutPrefix(behindID(body), []byte(`"method":"`)); ok {
		// A slash and letters are all that the methods of MCP have.
		if end := bytes.IndexFunc(value, func(r rune) bool { return r != '/' && (r|0x20 < 'a' || r|0x20 > 'z') }); end >= 0 && value[end] == '"' {
			return value[:end:end]
		}
	}
	return scanMethod(body)
}

// behindID returns what is behind the version and the id of a message that begins with them, or
// with one or none, as SDKs write it: without white space, and with a number. Nil: it begins otherwise.
// Scanning takes ten times as long, and each call is looked at twice.
func behindID(body []byte) []byte {
	rest, ok := bytes.CutPrefix(body, []byte("{"))
	if !ok {
		return nil
	}
	rest, _ = bytes.CutPrefix(rest, []byte(`"jsonrpc":"2.0",`))
	id, ok := bytes.CutPrefix(rest, []byte(`"id":`))
	if !ok {
		return rest
	}
	rest = bytes.TrimLeft(id, "0123456789")
	if id = id[:len(id)-len(rest)]; len(id) == 0 || len(id) > 1 && id[0] == '0' {
		return nil
	}
	if rest, ok = bytes.CutPrefix(rest, []byte(",")); !ok {
		return nil
	}
	return rest
}

// scanMethod is [Method] for all that may be written otherwise.
func scanMethod(body []byte) []byte {
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
