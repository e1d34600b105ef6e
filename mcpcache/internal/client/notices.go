package client

import (
	"io"
	"net/http"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/sse"
)

// noticeWatcher is an [http.RoundTripper] that finds the notices in all answers in a
// session, before they are read. It finds them in every spelling that some client acts
// on, of which the client library knows only some.
type noticeWatcher struct {
	base http.RoundTripper
	// onNotice is called with the method of each. Nothing more is read until it returns.
	onNotice func(method string)
}

// RoundTrip implements [http.RoundTripper].
func (n *noticeWatcher) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := n.base.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	format := sse.FormatOf(req.Method == http.MethodGet, res.Header["Content-Type"], res.Header["Content-Encoding"])
	if format != sse.Unwatched {
		res.Body = &watchedBody{ReadCloser: res.Body, watcher: sse.Watcher{Format: format}, onNotice: n.onNotice}
	}
	return res, nil
}

// watchedBody is the body of an answer whose notices are seen as it is read.
type watchedBody struct {
	io.ReadCloser
	watcher  sse.Watcher
	onNotice func(method string)
}

func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.watcher.Scan(p[:n], b.onNotice)
	return n, err
}
