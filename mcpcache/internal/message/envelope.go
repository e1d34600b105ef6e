package message

import (
	"bytes"
	"slices"
)

// Envelope is what a message of JSON-RPC is, without a look at what it says.
type Envelope struct {
	ID       []byte // raw JSON; nil when there is none, or null
	Method   string // unescaped; "" of a response
	Response bool
	idEnd    int // where ID ends in the message
}

// WithID returns the message with another raw id in the place of its own, and all else as
// written. data is what the envelope was parsed from; it has to have an id.
func (e *Envelope) WithID(data, id []byte) []byte {
	return slices.Concat(data[:e.idEnd-len(e.ID)], id, data[e.idEnd:])
}

// ParseEnvelope takes apart one message, of either side, which is to pass as it is written: its
// strings may have what is no Unicode, and it may have a result beside an error. Its error is an [ErrBatch], an
// [ErrAmbiguous] or an [ErrInvalid]. The envelope's slices point into data.
func ParseEnvelope(data []byte) (e Envelope, err error) {
	if IsBatch(data) {
		return e, ErrBatch
	}
	s := scanLeniently(data)
	defer s.release()
	members, err := s.eachOf(topKeys, "not an object", func(key int) error {
		value, err := s.value()
		switch {
		case err != nil:
			return err
		case key == topJSONRPC && string(value) != version:
			return invalid(`jsonrpc is not "2.0"`)
		case key == topID && !bytes.Equal(value, []byte("null")):
			if !validID(value) {
				return invalid("id is not a string or integer of at most 1 KiB")
			}
			e.ID, e.idEnd = value, int(s.dec.InputOffset())
		case key == topMethod:
			if !isString(value) {
				return invalid("method is not a string")
			}
			e.Method = string(unquote(value))
		}
		return nil
	})
	if err == nil {
		err = s.end()
	}
	answers := members.has(topResult) || members.has(topError)
	switch e.Response = !members.has(topMethod); {
	case err != nil:
	case !members.has(topJSONRPC):
		err = invalid("jsonrpc is missing")
	case answers != e.Response:
		err = invalid("not one of a request, a notification and a response")
	}
	return e, err
}
