package message

import "slices"

// Envelope is what a message of JSON-RPC is, without a look at what it says.
type Envelope struct {
	ID       []byte // raw JSON as written; nil when there is none, or null
	Method   string // unescaped; "" of a response
	Response bool
	idEnd    int // where ID ends in the message
}

// WithID returns the message with another raw id in the place of its own, and all else as
// written. data is what the envelope was parsed from; it has to have an id.
func (e *Envelope) WithID(data, id []byte) []byte {
	return slices.Concat(data[:e.idEnd-len(e.ID)], id, data[e.idEnd:])
}

// ParseEnvelope takes apart one message of a server, which is to pass as it is written: its
// strings may have what is no Unicode, it may have a result beside an error, and what [ParseResponse] takes of
// servers that are not exact. Its error is an [ErrBatch], an
// [ErrAmbiguous] or an [ErrInvalid]. The envelope's slices point into data.
func ParseEnvelope(data []byte) (e Envelope, err error) {
	if IsBatch(data) {
		return e, ErrBatch
	}
	s := scanLeniently(data)
	defer s.release()
	members, withNull, err := s.members(func(key int) error {
		value, err := s.value()
		switch {
		case err != nil:
			return err
		case key == topJSONRPC:
			return checkVersion(value)
		case key == topID:
			e.ID, e.idEnd = value, int(s.dec.InputOffset())
			return checkID(wholeID(value))
		case key == topMethod:
			if !isString(value) {
				return invalid("method is not a string")
			}
			e.Method = string(unquote(value))
		}
		return nil
	})
	e.Response = !members.has(topMethod)
	said := members
	if e.Response {
		said = withNull // a result of null is one
	}
	switch answers := said.has(topResult) || said.has(topError); {
	case err != nil:
	case !members.has(topJSONRPC):
		err = invalid("jsonrpc is missing")
	case answers != e.Response:
		err = invalid("not one of a request, a notification and a response")
	}
	return e, err
}
