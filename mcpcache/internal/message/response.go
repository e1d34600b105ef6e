package message

import (
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Response is a JSON-RPC response taken apart. Exactly one of Result and Error
// is set. Its slices point into the data given to [ParseResponse], but an ID that is
// written as a fraction.
type Response struct {
	ID     []byte // raw JSON, a number as a plain integer; nil when an error has no id or null
	Result []byte // raw JSON object
	Error  *Error
}

// Error is a JSON-RPC error object.
type Error struct {
	Code    int
	Message string
	// Supported is data.supported: the revisions that a server names when it
	// refuses one (-32022, and -32602 in the legacy lifecycle).
	Supported []string
}

// maxMessage is how many bytes of an upstream's message an error text repeats.
const maxMessage = 200

// Error returns the code and the message, quoted and cut to 200 bytes.
func (e *Error) Error() string {
	text := e.Message
	if len(text) > maxMessage {
		cut := maxMessage
		for cut > 0 && !utf8.RuneStart(text[cut]) {
			cut--
		}
		text = text[:cut]
	}
	return fmt.Sprintf("upstream error %d: %q", e.Code, text)
}

const (
	errorCode = iota
	errorMessage
	errorData
)

var errorKeys = keys("code", "message", "data")

// ParseResponse takes apart one JSON-RPC response. It refuses what two parsers
// may read differently, trailing data, and a message that is no response. A
// result has to be an object and to have an id. It takes what clients take of servers
// that are not exact: a member of null counts as absent, an integer may be written as a
// fraction, and the version may be there twice (Wazuh-MCP-Server#59). [Deviations] names
// what it has let pass.
func ParseResponse(data []byte) (Response, error) {
	s := scan(data)
	defer s.release()
	resp, err := s.response()
	if err != nil {
		return Response{}, fmt.Errorf("parsing response: %w", err)
	}
	return resp, nil
}

// BeginsAsResponse reports whether a message, of which this is the beginning, begins as a
// response does: the result or the error comes before any method or params. A member of null
// counts as absent. It reports false as long as that is not certain.
func BeginsAsResponse(beginning []byte) bool {
	s := scan(beginning)
	defer s.release()
	if s.open(jsontext.KindBeginObject, "not an object") != nil {
		return false
	}
	for s.more() {
		name, err := s.value()
		if err != nil {
			return false
		}
		switch key, ok := topKeys.find(s.unescape(name)); {
		case !ok || key == topMethod || key == topParams:
			return false
		case (key == topResult || key == topError) && (s.kind() == jsontext.KindBeginObject || s.kind() == jsontext.KindBeginArray):
			return true
		}
		if _, err := s.value(); err != nil {
			return false
		}
	}
	return false
}

func (s *scanner) response() (resp Response, err error) {
	members, _, err := s.members(func(key int) error { return s.responseMember(key, &resp) })
	if err == nil {
		err = checkMembers(members)
	}
	switch {
	case err != nil:
		return resp, err
	case members.has(topMethod):
		return resp, invalid("not a response")
	case resp.Error == nil && resp.ID == nil:
		return resp, invalid("result without id")
	}
	return resp, nil
}

// members calls f before each member of a message as servers write them: a member of null is absent, and the
// version may be there twice. f has to read the value. It returns those that are there, and those that would be
// if null were something.
func (s *scanner) members(f func(key int) error) (members, withNull seen, err error) {
	if err := s.open(jsontext.KindBeginObject, "not an object"); err != nil {
		return members, withNull, err
	}
	var before seen
	for s.more() {
		key, err := s.member(topKeys, &before)
		null := s.kind() == jsontext.KindNull
		switch {
		case err != nil:
		case null:
			_, err = s.value()
		default:
			err = f(key)
		}
		if err != nil {
			return members, withNull, err
		}
		if key == unknown {
			continue
		}
		withNull.add(key)
		if !null {
			members.add(key)
		}
		if key == topJSONRPC && !null { // each has been found to be the same
			before.remove(key)
		}
	}
	return members, withNull, s.endOfInput()
}

func (s *scanner) responseMember(key int, resp *Response) error {
	if key == topError {
		failure, err := s.failure()
		resp.Error = failure
		return err
	}
	value, err := s.value()
	if err != nil {
		return err
	}
	switch key {
	case topJSONRPC:
		return checkVersion(value)
	case topID:
		resp.ID = wholeID(value)
		return checkID(resp.ID)
	case topResult:
		if !isObject(value) {
			return invalid("result is not an object")
		}
		resp.Result = value
	}
	return nil
}

func (s *scanner) failure() (*Error, error) {
	if err := s.open(jsontext.KindBeginObject, "error is not an object"); err != nil {
		return nil, err
	}
	var e Error
	var before seen
	for s.more() {
		key, err := s.member(errorKeys, &before)
		if err != nil {
			return nil, err
		}
		value, err := s.value()
		if err != nil {
			return nil, err
		}
		switch key {
		case errorCode:
			if e.Code, err = strconv.Atoi(string(wholeID(value))); err != nil {
				return nil, invalid("error code is not an integer")
			}
		case errorMessage:
			if !isString(value) {
				return nil, invalid("error message is not a string")
			}
			e.Message = string(unquote(value))
		case errorData:
			e.Supported = supported(value)
		}
	}
	if !before.has(errorCode) || !before.has(errorMessage) {
		return nil, invalid("error without code or message")
	}
	return &e, nil
}

// supported returns the strings of data.supported; none when data is anything
// else, for servers may put into it what they like.
func supported(data []byte) (versions []string) {
	err := eachMember(data, supportedKeys, func(key int, _, value []byte) (err error) {
		if key != unknown {
			versions, err = stringList(value)
		}
		return err
	})
	if err != nil {
		return nil
	}
	return versions
}

var supportedKeys = keys("supported")
