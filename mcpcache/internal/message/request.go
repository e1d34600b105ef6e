package message

import (
	"github.com/go-json-experiment/json/jsontext"
)

// Request is one JSON-RPC message of a client, as far as a cache has to
// understand it. Its slices point into the body given to [Decode], but Method
// and Meta.Revision if they are written with escapes.
type Request struct {
	ID     []byte // raw JSON of "id", as written; nil when there is none (a notification)
	Method []byte // unescaped; nil when there is none (a response)
	Cursor []byte // raw JSON string of params.cursor; nil when absent (present but empty is `""`)
	URI    []byte // raw JSON string of params.uri; nil when absent
	Name   []byte // raw JSON string of params.name; nil when absent

	// ExtraMembers says that the message has members that JSON-RPC does not define.
	ExtraMembers bool
	// ExtraParams says that params has a member other than _meta, cursor and uri.
	ExtraParams bool
	// UnsafeInteger says that the id or the progressToken is an integer that not
	// every program can hold: one beyond ±(2^53-1) (RFC 8259, section 6).
	UnsafeInteger bool

	Meta Meta
}

const (
	topJSONRPC = iota
	topID
	topMethod
	topParams
	topResult
	topError
)

var topKeys = keys("jsonrpc", "id", "method", "params", "result", "error")

const (
	paramMeta = iota
	paramCursor
	paramURI
	paramName
)

// Of the other params only the names matter: see ExtraParams.
var paramKeys = keys("_meta", "cursor", "uri", "name", "arguments", "inputResponses", "requestState")

// version is the only value of "jsonrpc" (JSON-RPC 2.0, section 4). Writing it
// with escapes would be JSON too, but nobody does.
const version = `"2.0"`

func checkVersion(value []byte) error {
	if string(value) != version {
		return invalid(`jsonrpc is not "2.0"`)
	}
	return nil
}

// Decode takes a client's message apart. It resets req first and leaves it
// reset when it fails. Its error is an [ErrBatch], [ErrAmbiguous] or
// [ErrInvalid]; when several apply, the first that is met. The whole body is
// checked, but what lies in params.arguments and in other values that the cache
// has no use for needs to be JSON and no more.
func Decode(body []byte, req *Request) error {
	_, err := decode(body, req)
	return err
}

// decode is Decode, and returns where the id ends in the body, if there is one.
func decode(body []byte, req *Request) (idEnd int, err error) {
	*req = Request{}
	s := scan(body)
	err, idEnd = s.request(req), s.idEnd
	s.release()
	if err != nil {
		*req = Request{}
	}
	return idEnd, err
}

func (s *scanner) request(req *Request) error {
	switch s.kind() {
	case jsontext.KindBeginObject:
	case jsontext.KindBeginArray:
		return ErrBatch
	default:
		return s.unexpected("not an object")
	}
	if err := s.enter(); err != nil {
		return err
	}
	var before seen
	for s.more() {
		key, err := s.member(topKeys, &before)
		if err != nil {
			return err
		}
		if err := s.requestMember(key, req); err != nil {
			return err
		}
	}
	if err := s.endOfInput(); err != nil {
		return err
	}
	return checkMembers(before)
}

func (s *scanner) requestMember(key int, req *Request) (err error) {
	if key == topParams {
		return s.params(req)
	}
	value, err := s.value()
	if err != nil {
		return err
	}
	switch key {
	case topJSONRPC:
		return checkVersion(value)
	case topID:
		if err := checkID(value); err != nil {
			return err
		}
		req.ID, s.idEnd = value, int(s.dec.InputOffset())
		req.UnsafeInteger = req.UnsafeInteger || !isString(value) && !isSafe(value)
	case topMethod:
		if !isString(value) {
			return invalid("method is not a string")
		}
		req.Method = unquote(value)
	case unknown:
		req.ExtraMembers = true
	}
	return nil
}

// checkMembers checks that the members make a request, a notification or a
// response (JSON-RPC 2.0, sections 4 and 5).
func checkMembers(members seen) error {
	result, failure := members.has(topResult), members.has(topError)
	switch {
	case !members.has(topJSONRPC):
		return invalid("jsonrpc is missing")
	case members.has(topMethod) && (result || failure):
		return invalid("both a request and a response")
	case members.has(topMethod):
		return nil
	case result && failure:
		return invalid("both a result and an error")
	case !result && !failure:
		return invalid("neither a request nor a response")
	}
	return nil
}

func (s *scanner) params(req *Request) error {
	_, err := s.eachOf(paramKeys, "params is not an object", func(key int) error { return s.param(key, req) })
	return err
}

func (s *scanner) param(key int, req *Request) (err error) {
	switch key {
	case paramMeta:
		err = s.meta(req)
	case paramCursor:
		req.Cursor, err = s.stringValue("cursor is not a string")
	case paramURI:
		req.URI, err = s.stringValue("uri is not a string")
	case paramName:
		req.ExtraParams = true
		req.Name, err = s.stringValue("name is not a string")
	default:
		req.ExtraParams = true
		_, err = s.value()
	}
	return err
}

// stringValue reads a value that has to be a string and returns it as written.
func (s *scanner) stringValue(otherwise string) ([]byte, error) {
	value, err := s.value()
	if err != nil {
		return nil, err
	}
	if !isString(value) {
		return nil, invalid(otherwise)
	}
	return value, nil
}

func isString(value []byte) bool { return value[0] == '"' }
func isObject(value []byte) bool { return value[0] == '{' }
func isNull(value []byte) bool   { return string(value) == "null" }
func isNumber(value []byte) bool { return value[0] == '-' || '0' <= value[0] && value[0] <= '9' }
