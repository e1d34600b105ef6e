package client

import "net/http"

// discreet hides in answers, and in errors, the credentials that are put on a
// request behind it. Nobody but the upstream can repeat them: they are on no
// request that is seen here.
type discreet struct {
	base   http.RoundTripper
	policy func() Policy
}

// RoundTrip implements [http.RoundTripper].
func (d *discreet) RoundTrip(req *http.Request) (*http.Response, error) {
	secrets := Secrets(nil, d.policy().Sent)
	res, err := d.base.RoundTrip(req)
	if err != nil {
		return nil, hidden(secrets, err)
	}
	res.Body = secrets.Reader(res.Body)
	return res, nil
}
