package feed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/sse"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/upstream"
)

// errNoStream says that the upstream offers no stream to listen on. Only the
// TTL rules then.
var errNoStream = errors.New("upstream offers no stream of notices")

// listens reports whether the feed keeps a stream open. In a legacy session it
// does even if the upstream announces nothing: that the stream ends is how a
// restart of the upstream is noticed. A legacy server without sessions could not
// tell the feed's stream from those of clients: a message goes to one stream
// only, and the feed would take away what is meant for a client.
func (s *session) listens() bool {
	if s.revision.Era() == revision.Legacy {
		return s.transport.GetSessionId() != ""
	}
	return s.announcesAny()
}

// listen keeps a stream of notices open until it ends, and returns why it
// ended. opened is called once the server is listening for changes: what is
// fetched after that misses none.
func (s *session) listen(ctx context.Context, opened func()) error {
	ctx = upstream.WithIdleTimeout(ctx, idleTimeout)
	if s.revision.Era() == revision.Modern {
		return s.subscribe(ctx, opened)
	}
	return s.get(ctx, opened)
}

// subscribe listens the modern way. The stream counts as open with the
// server's acknowledgement, which is the first message on it.
func (s *session) subscribe(ctx context.Context, opened func()) error {
	// A stream of its own, so that an acknowledgement cannot be mistaken.
	own, err := newSession(s.revision, s.url, s.base, s.replies, func(method string) {
		if method == sse.Acknowledged {
			opened()
			return
		}
		s.onNotice(method)
	})
	if err != nil {
		return err
	}
	defer own.close()
	own.transport.SetProtocolVersion(s.revision.String())
	changed := s.info.ListChanged
	_, err = own.call(ctx, "subscriptions/listen", map[string]any{"notifications": map[string]any{
		"toolsListChanged":     changed["tools"],
		"promptsListChanged":   changed["prompts"],
		"resourcesListChanged": changed["resources"],
	}}, nil)
	return streamError(err)
}

// get listens the legacy way, on a GET stream of the session.
func (s *session) get(ctx context.Context, opened func()) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, nil)
	if err != nil {
		return fmt.Errorf("preparing the stream of notices: %w", err)
	}
	s.setHeaders(req)
	req.Header.Set("Accept", "text/event-stream")
	res, err := s.client.Do(req)
	if err != nil {
		return streamError(fmt.Errorf("opening the stream of notices: %w", err))
	}
	defer res.Body.Close()
	opened()
	var replying sync.WaitGroup
	defer replying.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	events := sse.NewReader(res.Body, maxNotice)
	for {
		event, err := events.Next()
		if err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return fmt.Errorf("reading the stream of notices: %w", err)
		}
		if reply := s.hear(event.Data); reply != nil && s.replies.begin() {
			replying.Go(func() {
				defer s.replies.end()
				s.reply(ctx, reply)
			})
		}
	}
}

// maxNotice is the largest message on a stream of notices, in bytes.
const maxNotice = 1 << 20

// hear takes one message of a GET stream and returns the answer, if it is a
// request. Notices have been heard already, see [noticing].
func (s *session) hear(data []byte) (reply []byte) {
	var m message.Request
	if len(data) == 0 || message.Decode(data, &m) != nil || m.Method == nil || m.ID == nil {
		return nil
	}
	return appendReply(nil, m.ID, string(m.Method))
}

// reply posts an answer to a server's request. A server that does not get it
// will find out by its own time limit.
func (s *session) reply(ctx context.Context, data []byte) {
	defer func() { _ = recover() }() // one answer less
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(data))
	if err != nil {
		return
	}
	s.setHeaders(req)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if res, err := s.client.Do(req); err == nil {
		_ = res.Body.Close()
	}
}

func (s *session) setHeaders(req *http.Request) {
	req.Header.Set("Mcp-Protocol-Version", s.revision.String())
	if id := s.transport.GetSessionId(); id != "" {
		req.Header.Set("Mcp-Session-Id", id)
	}
}

// streamError tells a server without streams from one that fails.
func streamError(err error) error {
	if err == nil {
		return nil
	}
	if rpc, ok := errors.AsType[*message.Error](err); ok && refusesRequest(rpc.Code) {
		return fmt.Errorf("%w: %w", errNoStream, err)
	}
	status, ok := errors.AsType[*upstream.StatusError](err)
	if ok && (status.Status == http.StatusMethodNotAllowed || status.Status == http.StatusNotImplemented ||
		definite(status.Status) && status.Code != 0) {
		return fmt.Errorf("%w: %w", errNoStream, err)
	}
	return err
}

// refusesRequest reports whether a JSON-RPC error is about the request itself:
// it is invalid, its method unknown or its params are. Others may pass.
func refusesRequest(code int) bool { return code >= -32602 && code <= -32600 }
