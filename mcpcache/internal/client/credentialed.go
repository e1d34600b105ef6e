package client

import (
	"context"
	"maps"
	"net/http"
)

type credentialsKey struct{}

// WithCredentials returns a context whose requests carry these credentials in the place of
// those with which the session of a client was opened.
func WithCredentials(ctx context.Context, credentials http.Header) context.Context {
	return context.WithValue(ctx, credentialsKey{}, credentials)
}

// credentialed puts the credentials of the client as which a session is opened on its requests.
type credentialed struct {
	base http.RoundTripper
	as   *Identity // nil for ourselves
}

// RoundTrip implements [http.RoundTripper].
func (c *credentialed) RoundTrip(req *http.Request) (*http.Response, error) {
	if c.as == nil || c.as.Credentials == nil {
		return c.base.RoundTrip(req)
	}
	ctx, credentials := req.Context(), c.as.Credentials
	if now, ok := ctx.Value(credentialsKey{}).(http.Header); ok {
		credentials = now
	}
	if !c.as.Guarded {
		ctx = withoutGuard(ctx)
	}
	sent := req.Clone(ctx)
	maps.Copy(sent.Header, credentials)
	res, err := c.base.RoundTrip(sent)
	if err != nil {
		return nil, hidden(Secrets(nil, credentials), err)
	}
	return res, nil
}
