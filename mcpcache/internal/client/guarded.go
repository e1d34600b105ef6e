package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/caddy-mcp/mcp-cache/mcpcache/guards"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/redact"
)

// GuardError says that a request was not sent, because its guard gave no credential.
type GuardError struct {
	// Doing is what was being done.
	Doing string
	// Err is the guard's. It may say of a server that it cannot be reached: that is
	// another one than the upstream.
	Err error
}

func (e *GuardError) Error() string { return e.Doing + ": " + e.Err.Error() }

func (e *GuardError) Unwrap() error { return e.Err }

// guarded puts the guard's credential on each request of ours. A request
// that the upstream refuses is sent once more if the guard can renew it.
type guarded struct {
	base   http.RoundTripper
	policy func() Policy
}

// RoundTrip implements [http.RoundTripper].
func (g *guarded) RoundTrip(req *http.Request) (*http.Response, error) {
	policy := g.policy()
	guard := policy.Guard
	if guard == nil || isWithoutGuard(req.Context()) {
		res, err := g.base.RoundTrip(req)
		if status, failed := errors.AsType[*StatusError](err); failed {
			status.anonymous = guard == nil && len(policy.Sent) == 0
		}
		return res, err
	}
	res, used, err := g.send(guard, req)
	status, failed := errors.AsType[*StatusError](err)
	renewer, can := guard.(guards.Renewer)
	if !failed || status.Status != http.StatusUnauthorized || !can || req.Body != nil && req.GetBody == nil {
		return res, err
	}
	challenge := guards.Challenge{
		Status:          status.Status,
		Endpoint:        policy.Endpoint,
		WWWAuthenticate: status.WWWAuthenticate,
	}
	if renewErr := Renew(req.Context(), renewer, used, challenge); renewErr != nil {
		renewErr.Err = Secrets(req.Header, used.Header).Error(renewErr.Err)
		renewErr.Err = fmt.Errorf("%w (after %w)", renewErr.Err, err)
		return nil, renewErr
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
	if err := Authorize(guard, authorized); err != nil {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, authorized, err
	}
	res, err := g.base.RoundTrip(authorized)
	// Answers are logged, listed and stored, so they must not hold the credential.
	secrets := Secrets(req.Header, authorized.Header)
	if err != nil {
		return nil, authorized, hidden(secrets, err)
	}
	res.Body = secrets.Reader(res.Body)
	return res, authorized, nil
}

// leastSecret is the length from which a credential is looked for in answers.
// Shorter ones could be words of a list.
const leastSecret = 16

// Secrets returns the credentials of a header that another one, from before they were put on
// it, lacks; not those that are too short to be looked for.
func Secrets(before, after http.Header) *redact.Secrets {
	var secrets []string
	for name, values := range after {
		if slices.Equal(values, before[name]) {
			continue
		}
		for _, value := range values {
			scheme, word, _ := strings.Cut(strings.TrimSpace(value), " ")
			if word = strings.TrimSpace(word); word == "" {
				word = scheme
			}
			secrets = append(secrets, word)
			if _, password, ok := (&http.Request{Header: http.Header{"Authorization": {value}}}).BasicAuth(); ok {
				secrets = append(secrets, password)
			}
		}
	}
	secrets = slices.DeleteFunc(secrets, func(secret string) bool { return len(secret) < leastSecret })
	return redact.New(secrets...)
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

// Authorize has a guard put its credential on a request. Its error is a [GuardError].
func Authorize(guard guards.Guard, req *http.Request) error {
	if err := careful(func() error { return guard.Authorize(req.Context(), req) }); err != nil {
		return &GuardError{Doing: "authorizing a request", Err: err}
	}
	return nil
}

// Renew has a guard renew the credential on a request that was refused.
func Renew(ctx context.Context, guard guards.Renewer, used *http.Request, c guards.Challenge) *GuardError {
	if err := careful(func() error { return guard.Renew(ctx, guard.Credential(used), c) }); err != nil {
		return &GuardError{Doing: "renewing the credential", Err: err}
	}
	return nil
}
