package feed

import (
	"io"
	"net/http"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/sse"
)

// noticing is an [http.RoundTripper] that hears the notices in all answers to
// a session, before those who read them. It understands more spellings than
// they do: each that some client acts on.
type noticing struct {
	base http.RoundTripper
	// heard is told of the method of each. Nothing more is read until it returns.
	heard func(method string)
}

// RoundTrip implements [http.RoundTripper].
func (n *noticing) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := n.base.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	format := sse.FormatOf(req.Method == http.MethodGet, res.Header["Content-Type"], res.Header["Content-Encoding"])
	if format != sse.Unwatched {
		res.Body = &overheard{ReadCloser: res.Body, watcher: sse.Watcher{Format: format}, heard: n.heard}
	}
	return res, nil
}

// overheard is the body of an answer whose notices are heard as it is read.
type overheard struct {
	io.ReadCloser
	watcher sse.Watcher
	heard   func(method string)
}

func (o *overheard) Read(p []byte) (int, error) {
	n, err := o.ReadCloser.Read(p)
	o.watcher.Scan(p[:n], o.heard)
	return n, err
}
