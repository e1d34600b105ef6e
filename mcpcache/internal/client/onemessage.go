package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// What is wrong with a short answer.
var (
	errEmptyAnswer   = errors.New("the answer is empty")
	errNotOneMessage = errors.New("the answer is not one JSON message and no more")
	errNoResponse    = errors.New("the answer is no JSON-RPC response with an id")
)

// checkOne checks that an answer is one JSON object with an id. The client library
// would not look at what follows the first value, and calls the end of an empty answer
// that of the connection.
func checkOne(answer []byte) (err error) {
	var response struct {
		ID any `json:"id"`
	}
	switch {
	case len(bytes.TrimSpace(answer)) == 0:
		err = errEmptyAnswer
	case !json.Valid(answer):
		err = errNotOneMessage
	case json.Unmarshal(answer, &response) != nil || response.ID == nil:
		err = errNoResponse
	default:
		return nil
	}
	return fmt.Errorf("reading an answer: %w", err)
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
