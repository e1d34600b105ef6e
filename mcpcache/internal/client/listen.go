package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/sse"
)

// ErrNoStream says that the upstream offers no stream to listen on. Of a modern one only
// its description says that: what refuses a subscription may be a replica from before.
var ErrNoStream = errors.New("upstream offers no stream of notices")

// Listens reports whether to keep a stream of notices open. In a legacy session it is
// kept even if the upstream announces nothing: its end shows that the upstream has been
// restarted. A legacy server without sessions sends each message on just one of its
// streams, so ours would take messages that are meant for clients.
func (s *Session) Listens() bool {
	if s.client.Revision.Era() == revision.Legacy {
		return s.HasID()
	}
	return s.AnnouncesAny()
}

// Listen keeps a stream of notices open until it ends, and returns why it
// ended. opened is called once the server is listening for changes: what is
// fetched after that misses none. partly is called if the server says that it will not
// announce all that it said it would, when it described itself.
func (s *Session) Listen(ctx context.Context, opened, partly func()) error {
	ctx = withIdleTimeout(ctx, IdleTimeout)
	if s.client.Revision.Era() == revision.Modern {
		return s.subscribe(ctx, opened, partly)
	}
	return s.get(ctx, opened)
}

// subscribe listens by subscriptions/listen. The stream is open once the server has
// acknowledged it, in its first message.
func (s *Session) subscribe(ctx context.Context, opened, partly func()) error {
	// In a session of its own, so that no other stream can acknowledge it.
	own, err := s.client.newSession(nil, func(method string) {
		if method == sse.Acknowledged {
			opened()
			return
		}
		s.onNotice(method)
	})
	if err != nil {
		return err
	}
	defer own.Close(0) // a modern server has nothing to be told
	own.transport.SetProtocolVersion(s.client.Revision.String())
	changed := s.info.ListChanged
	asked := map[string]any{
		"toolsListChanged":     changed["tools"],
		"promptsListChanged":   changed["prompts"],
		"resourcesListChanged": changed["resources"],
	}
	own.transport.SetNotificationHandler(func(n mcp.JSONRPCNotification) {
		if n.Method == sse.Acknowledged && isLess(n.Params.AdditionalFields["notifications"], asked) {
			partly()
		}
	})
	_, err = own.call(ctx, "subscriptions/listen", map[string]any{"notifications": asked}, nil)
	return err
}

// isLess reports whether a server that acknowledges those notices will not send some that it
// was asked for. One that does not say is taken to send all.
func isLess(acknowledged any, asked map[string]any) bool {
	granted, said := acknowledged.(map[string]any)
	for name, wanted := range asked {
		if said && wanted == true && granted[name] != true {
			return true
		}
	}
	return false
}

// get listens on a GET stream of the legacy session.
func (s *Session) get(ctx context.Context, opened func()) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.client.URL, nil)
	if err != nil {
		return fmt.Errorf("preparing the stream of notices: %w", err)
	}
	s.setHeaders(req)
	req.Header.Set("Accept", "text/event-stream")
	res, err := s.http.Do(req)
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
		if reply := s.replyTo(event.Data); reply != nil && s.client.replies.begin() {
			replying.Go(func() {
				defer s.client.replies.end()
				s.reply(ctx, reply)
			})
		}
	}
}

// maxNotice is the largest message on a stream of notices, in bytes.
const maxNotice = 1 << 20

// replyTo returns the answer to one message of a GET stream, or nil if it is not a
// request. Notices are read by [noticeWatcher].
func (s *Session) replyTo(data []byte) (reply []byte) {
	var m message.Request
	if len(data) == 0 || message.Decode(data, &m) != nil || m.Method == nil || m.ID == nil {
		return nil
	}
	return appendReply(nil, m.ID, string(m.Method))
}

// reply posts an answer to a server's request. If that fails, the server's own time
// limit ends its wait.
func (s *Session) reply(ctx context.Context, data []byte) {
	defer func() { _ = recover() }() // the server gets no answer
	ctx, cancel := context.WithTimeout(ctx, RequestTimeout)
	defer cancel()
	_ = s.post(ctx, data)
}

func (s *Session) setHeaders(req *http.Request) {
	req.Header.Set("Mcp-Protocol-Version", s.client.Revision.String())
	if id := s.transport.GetSessionId(); id != "" {
		req.Header.Set("Mcp-Session-Id", id)
	}
}

// streamError makes an [ErrNoStream] of an error that shows that the server has no
// streams. Another refusal may be temporary: of one that took no second stream until it
// had missed the first (render-mcp-server#26), a later GET is answered.
func streamError(err error) error {
	if err == nil {
		return nil
	}
	if status, ok := errors.AsType[*StatusError](err); ok && (status.Status == http.StatusMethodNotAllowed || NotOffered(err)) {
		return fmt.Errorf("%w: %w", ErrNoStream, err)
	}
	return err
}
