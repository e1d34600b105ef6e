package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// errNotOneMessage says what is wrong with a short answer.
var errNotOneMessage = errors.New("answer is not one JSON message and no more")

// checkOne checks that an answer is one JSON value, or nothing. The client library
// would not look at what follows the first one.
func checkOne(answer []byte) error {
	if len(answer) > 0 && !json.Valid(answer) {
		return fmt.Errorf("reading an answer: %w", errNotOneMessage)
	}
	return nil
}

// oneMessage is a JSON body that is read whole and checked before it is passed on.
type oneMessage struct {
	io.ReadCloser
	ctx   context.Context // of the request
	whole *bytes.Reader   // nil before it was read
}

// Read implements [io.Reader].
func (m *oneMessage) Read(p []byte) (int, error) {
	if m.whole == nil {
		data, err := io.ReadAll(m.ReadCloser)
		if err == nil {
			err = checkOne(data)
		}
		if err != nil {
			fail(m.ctx, err)
			return 0, err
		}
		m.whole = bytes.NewReader(data)
	}
	return m.whole.Read(p)
}
