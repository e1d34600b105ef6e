// Package outbound sends requests to token endpoints and metadata endpoints. If the upstream has
// named the endpoint, the package limits the addresses that a request may reach. Its errors show a
// short part of an answer, without secrets.
//
// It knows nothing of OAuth.
package outbound

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/secretfile"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/version"
)

const (
	// MaxAnswer bounds the answer of a token or metadata endpoint, in bytes.
	MaxAnswer = 1 << 20

	// defaultTimeout is the time limit of one request to such an endpoint,
	// from the name lookup to the end of the answer.
	defaultTimeout = 10 * time.Second

	maxRedirects = 3

	// longestType is the length of a media type that an error may show.
	longestType = 60
)

var (
	errCrossOrigin = errors.New("redirect to another origin is not followed")
	errRedirect    = errors.New("redirect is not followed")
	errTooLarge    = fmt.Errorf("answer is larger than %d bytes", MaxAnswer)
	errNotJSON     = errors.New("answer is not valid JSON of the expected form")
)

// Client sends requests to token and metadata endpoints.
type Client struct {
	// Listens tells whether Caddy itself listens on an address. It is set
	// before the first request.
	Listens func(netip.AddrPort) bool

	timeout time.Duration
	tls     *tls.Config

	mu         sync.Mutex
	transports map[Reach]*http.Transport // a connection is used for its reach only
}

// Answer is the whole answer of an endpoint.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// New makes a client with the operator's TLS settings, which may be nil, and a
// time limit for each request, 0 being the default of 10 seconds. A client certificate is read at each handshake, so that a short-lived
// one can be replaced and need not exist yet.
func New(ctx caddy.Context, settings *reverseproxy.TLSConfig, timeout time.Duration) (*Client, error) {
	c := &Client{timeout: timeout, Listens: caddyListens, transports: make(map[Reach]*http.Transport)}
	if c.timeout == 0 {
		c.timeout = defaultTimeout
	}
	if settings == nil {
		return c, nil
	}
	certFile, keyFile := settings.ClientCertificateFile, settings.ClientCertificateKeyFile
	if (certFile == "") != (keyFile == "") {
		return nil, errors.New("tls: client certificate and its key must be given together")
	}
	base := *settings
	base.ClientCertificateFile, base.ClientCertificateKeyFile = "", ""
	config, err := base.MakeTLSClientConfig(ctx)
	if err != nil {
		return nil, fmt.Errorf("tls: %w", err)
	}
	if config == nil {
		config = new(tls.Config)
	}
	if certFile != "" {
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := secretfile.LoadKeyPair(certFile, keyFile)
			if err != nil {
				return nil, fmt.Errorf("loading client certificate: %w", err)
			}
			return pair, nil
		}
	}
	c.tls = config
	return c, nil
}

// Close ends idle connections.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, transport := range c.transports {
		transport.CloseIdleConnections()
	}
}

// transport returns the transport of a reach. A forward proxy of the
// environment connects for us and cannot check addresses: only requests that
// reach anywhere use it.
func (c *Client) transport(r Reach) *http.Transport {
	c.mu.Lock()
	defer c.mu.Unlock()
	transport, ok := c.transports[r]
	if !ok {
		dialer := &net.Dialer{Timeout: c.timeout, ControlContext: c.control(r)}
		transport = &http.Transport{
			DialContext:            dialer.DialContext,
			TLSClientConfig:        c.tls.Clone(),
			TLSHandshakeTimeout:    c.timeout,
			ForceAttemptHTTP2:      true,
			MaxIdleConnsPerHost:    1,
			IdleConnTimeout:        30 * time.Second,
			MaxResponseHeaderBytes: 64 << 10,
		}
		if r == reachAnywhere {
			transport.Proxy = http.ProxyFromEnvironment
		}
		c.transports[r] = transport
	}
	return transport
}

// Verifies tells whether whoever answers by https must prove its name.
func (c *Client) Verifies() bool { return c.tls == nil || !c.tls.InsecureSkipVerify }

// control returns a hook of [net.Dialer]. It runs when names have been resolved,
// so that a name cannot stand for one address when checked and another when
// used.
func (c *Client) control(r Reach) func(context.Context, string, string, syscall.RawConn) error {
	return func(_ context.Context, _, address string, _ syscall.RawConn) error {
		target, err := netip.ParseAddrPort(address)
		switch {
		case r == reachAnywhere:
			return nil
		case err != nil:
			return ErrOutOfReach
		}
		if err := r.permits(target.Addr()); err != nil {
			return err
		}
		if r.named() && c.Listens(target) {
			return ErrListening
		}
		return nil
	}
}

// Send sends a request and reads the whole answer, whatever its status. Errors
// name the endpoint without its query.
func (c *Client) Send(r *http.Request, to Reach) (*Answer, error) {
	got, err := c.exchange(r, to)
	if err != nil {
		if wrapped, ok := errors.AsType[*url.Error](err); ok {
			err = wrapped.Err // it would repeat the URL
		}
		return nil, fmt.Errorf("asking %s: %w", Place(r.Context(), r.URL), brief(r.Context(), err))
	}
	return got, nil
}

func (c *Client) exchange(r *http.Request, to Reach) (*Answer, error) {
	client := &http.Client{
		Transport:     c.transport(to),
		CheckRedirect: checkRedirect,
		Timeout:       c.timeout,
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set("User-Agent", version.Agent())
	resp, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, MaxAnswer+1))
	if err != nil {
		return nil, fmt.Errorf("reading the answer: %w", err)
	}
	if len(body) > MaxAnswer {
		return nil, errTooLarge
	}
	return &Answer{Status: resp.StatusCode, Header: resp.Header, Body: body}, nil
}

// checkRedirect lets redirects stay within their origin and method, so that no
// credential leaves for another server and no POST becomes a GET.
func checkRedirect(r *http.Request, via []*http.Request) error {
	first := via[0]
	if Origin(r.URL) != Origin(first.URL) {
		return fmt.Errorf("%w: %s", errCrossOrigin, Shown(r.Context(), Origin(r.URL)))
	}
	if len(via) > maxRedirects || r.Method != first.Method {
		return errRedirect
	}
	return nil
}

// GetJSON reads a metadata document.
func (c *Client) GetJSON(ctx context.Context, u *url.URL, to Reach, into any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return errors.New("not a URL")
	}
	got, err := c.Send(r, to)
	if err != nil {
		return err
	}
	if got.Status != http.StatusOK {
		return fmt.Errorf("asking %s: %w", Place(ctx, u), &StatusError{Status: got.Status})
	}
	if err := got.Decode(into); err != nil {
		return fmt.Errorf("asking %s: %w", Place(ctx, u), err)
	}
	return nil
}

// Decode parses a JSON answer. Its errors do not repeat what the answer holds.
func (a *Answer) Decode(into any) error {
	kind, _, _ := mime.ParseMediaType(a.Header.Get("Content-Type"))
	if kind != "application/json" && !strings.HasSuffix(kind, "+json") {
		if len(kind) > longestType {
			kind = "something else"
		}
		return fmt.Errorf("answer is %q and not JSON", kind)
	}
	decoder := json.NewDecoder(bytes.NewReader(a.Body))
	if err := decoder.Decode(into); err != nil {
		return errNotJSON
	}
	if _, err := decoder.Token(); err != io.EOF {
		return errNotJSON
	}
	return nil
}

// RetryAfter returns what the Retry-After header asks for (RFC 9110 section
// 10.2.3), 0 if it asks for nothing.
func (a *Answer) RetryAfter() time.Duration {
	value := a.Header.Get("Retry-After")
	if seconds, err := strconv.ParseUint(value, 10, 32); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}

// StatusError is an HTTP status that brought no usable answer.
type StatusError struct {
	Status int
}

func (e *StatusError) Error() string { return fmt.Sprintf("answer has status %d", e.Status) }

// Place names an endpoint without its query, which may hold a secret.
func Place(ctx context.Context, u *url.URL) string {
	return Shown(ctx, u.Scheme+"://"+u.Host+u.EscapedPath())
}
