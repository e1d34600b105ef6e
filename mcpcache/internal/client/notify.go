package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
)

// acknowledgedWithin is how long a notification is waited for. Some servers never
// acknowledge one, and go on all the same (vocs#484).
const acknowledgedWithin = 2 * time.Second

// notify sends a notification in the session. Any 2xx acknowledges it, whatever comes
// with that: the 202 of the specification (2025-11-25, "Sending Messages to the Server")
// is not what all servers send. One that is not acknowledged in time has been sent, and
// counts as that.
func (s *Session) notify(ctx context.Context, method string, params map[string]any) error {
	message := map[string]any{"jsonrpc": mcp.JSONRPC_VERSION, "method": method}
	if params != nil {
		message["params"] = params
	}
	data, err := json.Marshal(message)
	if err != nil {
		return fmt.Errorf("sending %s: %w", method, err)
	}
	sent := make(chan error, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				sent <- fmt.Errorf("sending %s panicked: %v", method, p)
			}
		}()
		ctx, cancel := context.WithTimeout(s.life, RequestTimeout)
		defer cancel()
		sent <- s.post(ctx, data)
	}()
	timer := time.NewTimer(acknowledgedWithin)
	defer timer.Stop()
	select {
	case err := <-sent:
		if err != nil {
			return fmt.Errorf("sending %s: %w", method, err)
		}
		return nil
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// post sends a message that has no answer but an acknowledgement.
func (s *Session) post(ctx context.Context, data []byte) error {
	req, err := http.NewRequestWithContext(withAcknowledgement(ctx), http.MethodPost, s.client.URL, bytes.NewReader(data))
	if err != nil {
		return err
	}
	s.setHeaders(req)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	res, err := s.http.Do(req)
	if err != nil {
		return err
	}
	return res.Body.Close()
}

type acknowledgementKey struct{}

// withAcknowledgement returns a context for a message that is only acknowledged.
func withAcknowledgement(ctx context.Context) context.Context {
	return context.WithValue(ctx, acknowledgementKey{}, true)
}

func isAcknowledgement(ctx context.Context) bool { return ctx.Value(acknowledgementKey{}) != nil }
