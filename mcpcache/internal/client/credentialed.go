package client

import (
	"maps"
	"net/http"
)

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
	ctx := req.Context()
	if !c.as.Guarded {
		ctx = withoutGuard(ctx)
	}
	sent := req.Clone(ctx)
	maps.Copy(sent.Header, c.as.Credentials)
	res, err := c.base.RoundTrip(sent)
	if err != nil {
		return nil, hidden(added(nil, c.as.Credentials), err)
	}
	return res, nil
}
