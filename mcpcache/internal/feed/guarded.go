package feed

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/caddy-mcp/mcp-cache/mcpcache/guards"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/upstream"
)

// guarded puts the guard's credential on each request of the feed. A request
// that the upstream refuses is sent once more if the guard can renew it.
type guarded struct {
	base  http.RoundTripper
	guard func() guards.Guard
}

// RoundTrip implements [http.RoundTripper].
func (g *guarded) RoundTrip(req *http.Request) (*http.Response, error) {
	guard := g.guard()
	if guard == nil || isWithoutGuard(req.Context()) {
		return g.base.RoundTrip(req)
	}
	res, used, err := g.send(guard, req)
	status, failed := errors.AsType[*upstream.StatusError](err)
	renewer, can := guard.(guards.Renewer)
	if !failed || status.Status != http.StatusUnauthorized || !can || req.Body != nil && req.GetBody == nil {
		return res, err
	}
	challenge := guards.Challenge{
		Status:          status.Status,
		Endpoint:        req.URL.String(),
		WWWAuthenticate: status.WWWAuthenticate,
	}
	renewErr := careful(func() error {
		return renewer.Renew(req.Context(), renewer.Credential(used), challenge)
	})
	if renewErr != nil {
		return nil, fmt.Errorf("renewing the credential: %w (after %w)", renewErr, err)
	}
	again := req.Clone(req.Context())
	if req.GetBody != nil {
		if again.Body, err = req.GetBody(); err != nil {
			return nil, fmt.Errorf("repeating a request: %w", err)
		}
	}
	if res, _, err = g.send(guard, again); err != nil {
		return nil, fmt.Errorf("repeating a request with a renewed credential: %w", err)
	}
	return res, nil
}

// send authorizes a copy of the request and sends it. It returns the copy.
func (g *guarded) send(guard guards.Guard, req *http.Request) (*http.Response, *http.Request, error) {
	authorized := req.Clone(req.Context())
	err := careful(func() error { return guard.Authorize(req.Context(), authorized) })
	if err != nil {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, authorized, fmt.Errorf("authorizing a request: %w", err)
	}
	res, err := g.base.RoundTrip(authorized)
	// What the upstream answers may be logged, listed and stored.
	switch secret := added(req.Header, authorized.Header); {
	case secret == "":
	case err == nil:
		res.Body = &masked{ReadCloser: res.Body, secret: []byte(secret)}
	case strings.Contains(err.Error(), secret):
		err = &maskedError{text: strings.ReplaceAll(err.Error(), secret, asterisks(len(secret))), cause: err}
	}
	return res, authorized, err
}

// maskedError is an error in whose text asterisks stand for the credential.
type maskedError struct {
	text  string
	cause error
}

func (e *maskedError) Error() string { return e.text }

func (e *maskedError) Unwrap() error { return e.cause }

func asterisks(n int) string { return strings.Repeat("*", n) }

// leastSecret is the length from which a credential is looked for in answers.
// Shorter ones could be words of a list.
const leastSecret = 16

// added returns the credential that a guard has put on a request, "" if that is
// too short to be looked for.
func added(before, after http.Header) string {
	for name, values := range after {
		if len(values) != 1 || slices.Equal(values, before[name]) {
			continue
		}
		words := strings.Fields(values[0])
		if len(words) > 0 && len(words[len(words)-1]) >= leastSecret {
			return words[len(words)-1]
		}
	}
	return ""
}

// masked is an answer's body in which asterisks stand for the feed's
// credential: some upstreams repeat it, in errors above all, and it must get
// into no log and no list.
type masked struct {
	io.ReadCloser
	secret []byte
	ready  []byte // to be handed out
	held   []byte // what may be the beginning of the secret
	err    error  // of the body, to be returned after all that
}

// Read implements [io.Reader]. It holds nothing back that cannot be part of the
// credential.
func (m *masked) Read(p []byte) (int, error) {
	for len(m.ready) == 0 {
		if m.err != nil || len(p) == 0 {
			return 0, m.err
		}
		n, err := m.ReadCloser.Read(p)
		m.take(p[:n], err)
	}
	n := copy(p, m.ready)
	m.ready = m.ready[n:]
	return n, nil
}

// take masks what has been read, together with what was held back.
func (m *masked) take(read []byte, err error) {
	whole := append(m.held, read...)
	if bytes.Contains(whole, m.secret) {
		whole = bytes.ReplaceAll(whole, m.secret, []byte(asterisks(len(m.secret))))
	}
	keep := 0
	if err == nil {
		for keep = min(len(m.secret)-1, len(whole)); !bytes.HasPrefix(m.secret, whole[len(whole)-keep:]); keep-- {
		}
	}
	m.ready, m.held, m.err = whole[:len(whole)-keep], bytes.Clone(whole[len(whole)-keep:]), err
}

// careful calls a guard. If it panics, only the type of the panic's value is
// shown: the value may hold the credential.
func careful(call func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("guard panicked with a value of type %T", p)
		}
	}()
	return call()
}
