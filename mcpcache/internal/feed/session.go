package feed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/upstream"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/variant"
)

// Time limits of the feed's own requests.
const (
	// requestTimeout is how long one answer may take, page by page.
	requestTimeout = 30 * time.Second
	// closeTimeout is how long the farewell to a session may take.
	closeTimeout = time.Second
	// idleTimeout is how long a listening stream may be silent before it is
	// given up and opened again: its other end may be gone without a word.
	idleTimeout = 5 * time.Minute
)

// clientName is what the feed calls itself.
const clientName = "mcp_cache"

// session is one conversation with the upstream at one revision. It drives
// mcp-go's transport raw: answers keep the bytes that the upstream wrote.
type session struct {
	revision  revision.Revision
	url       string
	base      http.RoundTripper // below the client
	client    *http.Client
	transport *transport.StreamableHTTP
	nextID    atomic.Int64
	info      message.ServerInfo
	// variant is that of the clients as one of which the session is opened; nil
	// for the feed itself.
	variant *variant.Record
	// replies are those to requests of the server. They are bounded for all
	// sessions of a feed.
	replies *replies
	// onNotice is told of each notice that arrives, on whatever stream.
	onNotice func(method string)
}

// newSession prepares a session; nothing is sent.
func newSession(r revision.Revision, url string, rt http.RoundTripper, re *replies, onNotice func(method string)) (*session, error) {
	s := &session{revision: r, url: url, base: rt, replies: re, onNotice: onNotice}
	below := &asking{base: taking{&noticing{base: rt, heard: onNotice}}, asked: s.asked}
	s.client = &http.Client{Transport: farewell{below}, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // a redirect could take the credential to another host
	}}
	t, err := transport.NewStreamableHTTP(url,
		transport.WithHTTPBasicClient(s.client),
		// Failures reach the log through the feed's state, once per change.
		transport.WithHTTPLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return nil, fmt.Errorf("preparing the transport: %w", err)
	}
	s.transport = t
	t.SetRequestHandler(s.refuse)
	return s, nil
}

// call sends one request and returns the bytes of its result. An answer that
// is not exactly a result object for this request is an error.
//
// It is asked as a client of variant v does; nil is the feed itself.
func (s *session) call(ctx context.Context, method string, params map[string]any, v *variant.Record) (json.RawMessage, error) {
	return s.callNamed(ctx, method, "", params, v)
}

// callNamed is call for a method that a modern request has to name something
// with, in the Mcp-Name header.
func (s *session) callNamed(ctx context.Context, method, name string, params map[string]any, v *variant.Record) (json.RawMessage, error) {
	ctx, outcome := upstream.WithOutcome(ctx)
	client := clientOf(v)
	header := http.Header{}
	if client.Language != "" {
		header.Set("Accept-Language", client.Language)
	}
	if s.revision.Era() == revision.Modern {
		header.Set("Mcp-Method", method)
		if name != "" {
			header.Set("Mcp-Name", name)
		}
		params["_meta"] = modernMeta(s.revision, client.Capabilities)
	}
	id := mcp.NewRequestId(s.nextID.Add(1))
	res, err := s.transport.SendRequest(ctx, transport.JSONRPCRequest{
		JSONRPC: mcp.JSONRPC_VERSION, ID: id, Method: method, Params: params, Header: header,
	})
	switch {
	case err != nil:
		if cause := outcome.Err(); cause != nil {
			err = cause
		}
		return nil, fmt.Errorf("calling %s: %w", method, brief(err))
	case res == nil:
		return nil, fmt.Errorf("calling %s: no answer", method)
	case res.ID.String() != id.String():
		return nil, fmt.Errorf("calling %s: the answer is to another request", method)
	case res.Error != nil:
		return nil, fmt.Errorf("calling %s: %w", method, &message.Error{
			Code: res.Error.Code, Message: res.Error.Message, Supported: supported(res.Error.Data),
		})
	case len(res.Result) == 0 || res.Result[0] != '{':
		return nil, fmt.Errorf("calling %s: the answer has no result object", method)
	}
	return takenIn(ctx, id, res.Result), nil
}

// maxErrorText is how much of an error's text is shown, in bytes: libraries
// repeat the upstream's whole answer, and guards what else it has said.
const maxErrorText = 512

// briefError is an error of which only the beginning of the text is shown.
type briefError struct {
	text  string
	cause error // nil if there is no more to it than its text
}

func (e *briefError) Error() string { return e.text }

func (e *briefError) Unwrap() error { return e.cause }

// brief returns err, cut short if its text is long.
func brief(err error) error {
	text := err.Error()
	if len(text) <= maxErrorText {
		return err
	}
	cut := &briefError{text: strings.ToValidUTF8(strings.Clone(text[:maxErrorText]), "")}
	switch err.(type) { //nolint:errorlint // asks what err itself can do
	case interface{ Unwrap() error }, interface{ Unwrap() []error }:
		cut.cause = err
	}
	return cut
}

// clientOf is how a client of variant v asks. By itself the feed has no
// capabilities: it shows lists to clients, it does not act on them.
func clientOf(v *variant.Record) variant.Client {
	if v == nil {
		return variant.Client{Name: clientName, Capabilities: []byte(`{}`)}
	}
	return v.Client
}

// modernMeta is the _meta that every modern request carries.
func modernMeta(r revision.Revision, capabilities json.RawMessage) map[string]any {
	return map[string]any{
		"io.modelcontextprotocol/protocolVersion":    r.String(),
		"io.modelcontextprotocol/clientCapabilities": capabilities,
		"io.modelcontextprotocol/clientInfo":         clientInfo(clientName),
	}
}

func clientInfo(name string) map[string]any {
	return map[string]any{"name": name, "version": "1"}
}

// supported returns data.supported of an error.
func supported(data any) []string {
	object, ok := data.(map[string]any)
	if !ok {
		return nil
	}
	list, _ := object["supported"].([]any)
	var versions []string
	for _, v := range list {
		if version, ok := v.(string); ok {
			versions = append(versions, version)
		}
	}
	return versions
}

// close ends the session. A legacy server is told, in a second or not at all.
func (s *session) close() {
	_ = s.transport.Close() // it never fails; what it could not tell the server does not matter
}

// farewell bounds the request that ends a session: nobody waits long for it.
type farewell struct{ http.RoundTripper }

func (f farewell) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodDelete {
		return f.RoundTripper.RoundTrip(req)
	}
	ctx, cancel := context.WithTimeout(req.Context(), closeTimeout)
	defer cancel()
	res, err := f.RoundTripper.RoundTrip(req.WithContext(ctx))
	if err != nil {
		return nil, err
	}
	_ = res.Body.Close()
	res.Body = http.NoBody
	return res, nil
}

// lost reports whether err says that the server has forgotten the session: its
// owner has to open a new one.
func (s *session) lost(err error) bool {
	if s.revision.Era() == revision.Modern {
		return false
	}
	if errors.Is(err, transport.ErrSessionTerminated) {
		return true
	}
	status, ok := errors.AsType[*upstream.StatusError](err)
	if !ok || notOffered(err) {
		return false
	}
	// 404 is what the specification asks for (2025-11-25, "Session
	// Management" 3); some servers answer 400 after a restart.
	return status.Status == http.StatusNotFound || status.Status == http.StatusBadRequest
}
