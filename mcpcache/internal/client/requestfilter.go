package client

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"strings"
)

// requestFilter is an [http.RoundTripper] that takes the requests of a server, and
// all responses but the first, out of the event streams that the transport reads.
// The transport would start a goroutine and a POST for each request, however many
// there are, and block one for ever at a third response.
type requestFilter struct {
	base http.RoundTripper
	// onRequest is called for each request of the server, with the context of our
	// request within whose answer it came. It must return at once.
	onRequest func(ctx context.Context, id []byte, method string)
}

// RoundTrip implements [http.RoundTripper].
func (f *requestFilter) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := f.base.RoundTrip(req)
	if err != nil || req.Method == http.MethodGet && req.Header.Get("Last-Event-ID") == "" {
		return res, err // a GET is our own to read, see [Session.Listen], unless it resumes an answer
	}
	if media, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); media == "text/event-stream" {
		res.Body = &filteredBody{ReadCloser: res.Body, onRequest: func(id []byte, method string) {
			f.onRequest(req.Context(), id, method)
		}}
	}
	return res, nil
}

// maxFiltered is the largest event that is filtered, in bytes. Most larger ones are
// lists; a larger request costs the server as much as us.
const maxFiltered = 64 << 10

// filteredBody is the filtered event stream. It holds back no more than an event that has
// not ended.
type filteredBody struct {
	io.ReadCloser
	onRequest func(id []byte, method string)

	ready     []byte // to be handed out
	event     []byte // what has been read of an event
	text      bool   // its last line is not blank
	large     bool   // it is larger than what is looked at: the rest of it passes
	responded bool   // a response has passed
	err       error  // of the stream, to be returned after all that
}

// Read implements [io.Reader].
func (b *filteredBody) Read(p []byte) (int, error) {
	for len(b.ready) == 0 {
		if b.err != nil || len(p) == 0 {
			return 0, b.err
		}
		b.ready = b.ready[:0]
		n, err := b.ReadCloser.Read(p)
		b.take(p[:n])
		if err != nil {
			b.err = err
			b.pass() // an event that was cut off
		}
	}
	n := copy(p, b.ready)
	b.ready = b.ready[n:]
	return n, nil
}

// take takes what has been read. Lines and events end where they do for the
// transport.
func (b *filteredBody) take(read []byte) {
	for line := range bytes.Lines(read) {
		b.event = append(b.event, line...)
		b.text = b.text || len(bytes.Trim(line, "\r\n")) > 0
		ended := !b.text && line[len(line)-1] == '\n'
		if ended && !b.large && len(b.event) <= maxFiltered {
			b.filter()
		}
		if b.large = !ended && (b.large || len(b.event) > maxFiltered); b.large || ended {
			b.pass()
		}
		b.text = b.text && line[len(line)-1] != '\n'
	}
}

// pass hands on what there is of the event.
func (b *filteredBody) pass() {
	b.ready = append(b.ready, b.event...)
	b.event = b.event[:0]
}

// filter decides what is handed on of a whole event.
func (b *filteredBody) filter() {
	var message map[string]json.RawMessage
	if json.Unmarshal(dataOf(b.event), &message) != nil || !hasID(message) {
		return // a notice, or nothing that the transport understands
	}
	method, isRequest := message["method"]
	switch {
	case isRequest:
		var name string
		if id := message["id"]; json.Unmarshal(method, &name) == nil && len(id) > 0 && id[0] != '{' && id[0] != '[' {
			b.onRequest(id, name)
		}
	case !b.responded:
		b.responded = true
		return
	}
	b.event = cursorOf(b.event)
}

// hasID reports whether a message has an id, for a transport that does not mind
// how that is written.
func hasID(message map[string]json.RawMessage) bool {
	for name, value := range message {
		if strings.EqualFold(name, "id") && string(value) != "null" {
			return true
		}
	}
	return false
}

// dataOf returns the data of an event.
func dataOf(event []byte) []byte {
	var data []byte
	for line := range bytes.Lines(event) {
		if value, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			data = append(data, value...)
		}
	}
	return data
}

// cursorOf returns an event reduced to the fields that are needed to resume its stream
// after it.
func cursorOf(event []byte) []byte {
	var cursor []byte
	for line := range bytes.Lines(event) {
		if bytes.HasPrefix(line, []byte("id:")) || bytes.HasPrefix(line, []byte("retry:")) {
			cursor = append(cursor, line...)
		}
	}
	return append(cursor, '\n')
}
