package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/jsonrpc"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/version"
)

// Time limits of our own requests.
const (
	// RequestTimeout is how long one answer may take, page by page.
	RequestTimeout = 30 * time.Second
	// IdleTimeout is how long a listening stream may be silent before it is given up: the
	// connection may be dead.
	IdleTimeout = 5 * time.Minute
)

// clientName is what we call ourselves.
const clientName = "mcp_cache"

// Identity is the client as which a session is opened, or a request sent. nil is
// ourselves.
type Identity struct {
	// Capabilities is a JSON object.
	Capabilities []byte
	// Name is what the client calls itself when it opens a session, "" for what we are called,
	// and Version which one of that name it is; "" for "1".
	Name, Version string
	// Language is the Accept-Language of its requests; "" if they have none.
	Language string
	// Request is what its requests ask for besides their message.
	Request Request
	// Credentials are fields of the header of each request of a session that is opened as the
	// client. If they are not nil, the guard's credential is on none, but with Guarded.
	Credentials http.Header
	Guarded     bool
}

// Session is a session with the upstream. Modern revisions have none: there it only holds
// the server's description of itself. Once it is open, its methods may be called from
// several goroutines at once.
type Session struct {
	client    *Client
	http      *http.Client
	farewell  *deleteTimeout
	transport *transport.StreamableHTTP
	nextID    atomic.Int64
	info      *ServerInfo
	// as is the client as which the session is opened; nil for ourselves.
	as *Identity
	// onNotice is called with the method of each notice.
	onNotice func(method string)
	// life ends with the session: until then what nobody waits for any more goes on.
	life context.Context
	end  context.CancelFunc
	// unanswered are the requests that may have to be cancelled.
	unanswered unanswered
	// replying has those answers to requests of the server that [Session.Answer] sends, and
	// waiting counts those that it is to send.
	replying chan struct{}
	waiting  atomic.Int32
}

// NewSession prepares a session as a client of that identity, to be opened with
// Open and ended with Close. Nothing is sent.
func (c *Client) NewSession(as *Identity) (*Session, error) { return c.newSession(as, c.OnNotice) }

func (c *Client) newSession(as *Identity, onNotice func(method string)) (*Session, error) {
	s := &Session{client: c, as: as, onNotice: onNotice, info: new(ServerInfo), replying: make(chan struct{}, MaxReplies)}
	s.life, s.end = context.WithCancel(context.Background())
	below := &requestFilter{
		base:      captures{&noticeWatcher{base: &requesting{&credentialed{c.transport, as}, as}, onNotice: onNotice}},
		onRequest: s.answer,
	}
	s.farewell = &deleteTimeout{RoundTripper: below}
	s.http = &http.Client{Jar: new(cookies), Transport: s.farewell, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // a redirect could take the credential to another host
	}}
	t, err := transport.NewStreamableHTTP(c.URL,
		transport.WithHTTPBasicClient(s.http),
		// The callers get the failures.
		transport.WithHTTPLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return nil, fmt.Errorf("preparing the transport: %w", err)
	}
	s.transport = t
	t.SetRequestHandler(s.dropRequest)
	return s, nil
}

// Server returns the server's description of itself from when the session was opened.
func (s *Session) Server() *ServerInfo { return s.info }

// ID returns what the server calls the session; "" if it does not.
func (s *Session) ID() string { return s.transport.GetSessionId() }

// HasID reports whether the server has given the session an ID. Only then can the server
// lose it.
func (s *Session) HasID() bool { return s.ID() != "" }

// Revision returns the one that the session was opened at.
func (s *Session) Revision() revision.Revision { return s.client.Revision }

// Offers reports whether the server says that it has kind k.
func (s *Session) Offers(k revision.Kind) bool {
	capability := k.Capability()
	return k.In(s.client.Revision) && (capability == "" || s.info.Capabilities[capability])
}

// AnnouncesAny reports whether the server says that it announces changes of any kind.
func (s *Session) AnnouncesAny() bool {
	for _, changed := range s.info.ListChanged {
		if changed {
			return true
		}
	}
	return false
}

// Announces reports whether the server says that it announces changes of kind k.
func (s *Session) Announces(k revision.Kind) bool { return s.info.ListChanged[k.Capability()] }

// call sends one request as a client of that identity, and returns the bytes of its
// result. An answer that is not exactly a result object for this request is an error.
func (s *Session) call(ctx context.Context, method string, params map[string]any, as *Identity) (json.RawMessage, error) {
	return s.callNamed(ctx, method, "", params, as)
}

// callNamed is call with the Mcp-Name header that a modern request of some methods has.
func (s *Session) callNamed(ctx context.Context, method, name string, params map[string]any, as *Identity) (json.RawMessage, error) {
	ctx, outcome := withOutcome(ctx)
	kept := captureOf(ctx)
	if kept == nil {
		kept = &capture{claim: new(claim), limit: s.client.Policy().MaxList + messageOverhead}
		ctx = withCapture(ctx, kept)
	}
	ctx = withIdentity(ctx, as)
	asking := as.orOwn()
	header := http.Header{}
	if asking.Language != "" {
		header.Set("Accept-Language", asking.Language)
	}
	if s.client.Revision.Era() == revision.Modern {
		header.Set("Mcp-Method", method)
		if name != "" {
			header.Set("Mcp-Name", name)
		}
		params["_meta"] = s.modernMeta(asking.Capabilities)
	}
	number := s.nextID.Add(1)
	kept.awaitAnswer(number)
	id := mcp.NewRequestId(number)
	res, err := s.sendRequest(ctx, number, transport.JSONRPCRequest{
		JSONRPC: mcp.JSONRPC_VERSION, ID: id, Method: method, Params: params, Header: header,
	})
	switch {
	case err != nil:
		if cause := outcome.Err(); cause != nil {
			err = cause
		}
		return nil, fmt.Errorf("calling %s: %w", method, Brief(kept.explain(err)))
	case res != nil && res.ID.String() != id.String():
		return nil, fmt.Errorf("calling %s: the answer is to another request", method)
	}
	result, err := kept.answer()
	if err != nil {
		return nil, fmt.Errorf("calling %s: %w", method, err)
	}
	return result, nil
}

// Ping asks whether the server still has the session (2025-11-25, "Ping").
func (s *Session) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, RequestTimeout)
	defer cancel()
	_, err := s.call(ctx, string(mcp.MethodPing), map[string]any{}, nil)
	return err
}

// Trim forgets what the server has said of itself: there may be many sessions.
func (s *Session) Trim() { s.info = new(ServerInfo) }

// SetLevel asks the server for messages of that level and above (2025-11-25, "Logging").
func (s *Session) SetLevel(ctx context.Context, level string) error {
	ctx, cancel := context.WithTimeout(ctx, RequestTimeout)
	defer cancel()
	_, err := s.call(ctx, string(mcp.MethodSetLogLevel), map[string]any{"level": level}, nil)
	return err
}

// orOwn returns the identity, or our own if it is nil. That has no capabilities: we show
// lists to clients, we do not act on them.
func (as *Identity) orOwn() *Identity {
	if as == nil {
		return &Identity{Capabilities: []byte(`{}`)}
	}
	return as
}

// modernMeta is the _meta that every modern request carries.
func (s *Session) modernMeta(capabilities json.RawMessage) map[string]any {
	return map[string]any{
		message.MetaRevision:     s.client.Revision.String(),
		message.MetaCapabilities: capabilities,
		message.MetaClientInfo:   s.clientInfo("", ""),
	}
}

// clientInfo is what a client of that name and version is, or ourselves.
func (s *Session) clientInfo(name, its string) map[string]any {
	if name == "" {
		its = version.Own()
	}
	return map[string]any{"name": cmp.Or(name, s.client.Policy().Name, clientName), "version": cmp.Or(its, "1")}
}

// Close ends the session, and cancels what it has not answered. It takes no longer than
// that to tell a legacy server. It must be called once.
func (s *Session) Close(within time.Duration) {
	defer s.end()
	s.farewell.within = within - s.cancelAll(within/2)
	_ = s.transport.Close() // it always returns nil
}

// deleteTimeout bounds the time for the request that ends a session.
type deleteTimeout struct {
	http.RoundTripper

	within time.Duration // set before that request
}

// RoundTrip implements [http.RoundTripper].
func (d *deleteTimeout) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodDelete {
		return d.RoundTripper.RoundTrip(req)
	}
	ctx, cancel := context.WithTimeout(req.Context(), d.within)
	defer cancel()
	res, err := d.RoundTripper.RoundTrip(req.WithContext(ctx))
	if err != nil {
		return nil, err
	}
	_ = res.Body.Close()
	res.Body = http.NoBody
	return res, nil
}

// Lost reports whether err, of a request in the session, says that the server has
// forgotten the session: its owner has to open a new one.
func (s *Session) Lost(err error) bool {
	if s.client.Revision.Era() == revision.Modern {
		return false
	}
	if errors.Is(err, transport.ErrSessionTerminated) {
		return true
	}
	status, ok := errors.AsType[*StatusError](err)
	if !ok || status.Code == jsonrpc.MethodNotFound || status.Code == jsonrpc.InvalidParams {
		return false // some servers say that with 404, too (mcp-toolbox#3588)
	}
	// 404 is what the specification asks for (2025-11-25, "Session
	// Management" 3); some servers answer 400 after a restart.
	return status.Status == http.StatusNotFound || status.Status == http.StatusBadRequest
}

// MayBeLost reports whether err may say so in other words than [Session.Lost] knows: to a
// session that they do not know, some servers answer 401 (punkpeye/mcp-proxy#108,
// rust-sdk#559), 500, or a JSON-RPC error alone (agent-wiki#158). A new session shows
// whether it was that.
func (s *Session) MayBeLost(err error) bool {
	if !s.HasID() {
		return false
	}
	if rpc, ok := errors.AsType[*message.Error](err); ok {
		return MayBeOfSession(http.StatusOK, rpc.Code)
	}
	if unaddressed, ok := errors.AsType[*unaddressedError](err); ok {
		return MayBeOfSession(http.StatusOK, unaddressed.rpc.Code)
	}
	status, ok := errors.AsType[*StatusError](err)
	return ok && MayBeOfSession(status.Status, status.Code) && (status.Status != http.StatusServiceUnavailable || status.RetryAfter == 0)
}

// MayBeOfSession reports whether a server may say that it does not know the session of a request by an answer of
// that HTTP status, with a JSON-RPC error of that code; 0 for none. Servers use many for that: besides those of
// [Session.MayBeLost], 503 (neotoma#1926), and 200 with an error (agent-wiki#158).
func MayBeOfSession(status, code int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusInternalServerError, http.StatusServiceUnavailable:
		return true
	}
	return DefiniteRefusal(status) || code != 0 && !isAboutMethod(code)
}

// isAboutMethod reports whether a JSON-RPC error is about the method or how it went, so
// that the session is known (JSON-RPC 2.0, "Error object").
func isAboutMethod(code int) bool {
	return code >= jsonrpc.InternalError && code <= jsonrpc.MethodNotFound
}
