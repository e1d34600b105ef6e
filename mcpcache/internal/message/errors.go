package message

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
)

// Errors about messages, to be told apart with errors.Is. None of them quotes the
// message.
var (
	// ErrBatch says that the message is an array: a JSON-RPC batch, which
	// only revision 2025-03-26 has. Its elements are not looked at.
	ErrBatch = errors.New("message is a batch")

	// ErrAmbiguous says that two parsers may read the message differently: a
	// protocol key is repeated, or a key differs from one only in case.
	ErrAmbiguous = errors.New("message is ambiguous")

	// ErrInvalid says that the message is not one valid JSON-RPC message.
	ErrInvalid = errors.New("message is invalid")

	// ErrNoMessage says that an object has neither a method nor a result or error.
	ErrNoMessage = errors.New("neither a method nor a result or error")
)

// errTooLong says that a list is longer than offsets of four bytes reach.
var errTooLong = errors.New("list has more than 4 GiB")

// invalid returns an [ErrInvalid] with a reason.
func invalid(reason string) error {
	return fmt.Errorf("%w: %s", ErrInvalid, reason)
}

// ambiguous returns an [ErrAmbiguous] that names the protocol key.
func ambiguous(key []byte) error {
	return fmt.Errorf("%w: key %q repeated, in another case or with a NUL behind it", ErrAmbiguous, key)
}

// malformed returns an [ErrInvalid] for an error of the JSON decoder. Of that
// error only the offset is kept: its text quotes the message.
func malformed(err error) error {
	if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return fmt.Errorf("%w: malformed JSON at or after byte %d", ErrInvalid, syntax.ByteOffset)
	}
	return invalid("malformed JSON")
}
