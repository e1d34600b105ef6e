package client

import (
	"errors"
	"net/http"
	"strings"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/redact"
)

// maxURL is how long a URL may be that an error shows, in bytes.
const maxURL = 200

// leadsTo returns where a redirect leads, without what is secret in many a URL; "" if the
// answer is none. A long one is shown without its path. It is not cut elsewhere: a part of
// a credential in it could not be recognized.
func leadsTo(res *http.Response) string {
	to, err := res.Location()
	if err != nil || res.StatusCode < 300 || res.StatusCode > 399 || to.Host == "" {
		return ""
	}
	to.User, to.RawQuery, to.ForceQuery, to.Fragment = nil, "", false, ""
	text := to.String()
	if len(text) > maxURL {
		text = to.Scheme + "://" + to.Host + "/…"
	}
	if len(text) > maxURL || strings.ContainsFunc(to.Host, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return ""
	}
	return text
}

// Leads says where a redirect leads, to be put after its status; "" if the answer is none.
// What to do about it is said where it is for programs: others lead to pages to sign in at.
func (e *StatusError) Leads() string {
	if e.leadsTo == "" {
		return ""
	}
	said := " and leads to " + e.leadsTo
	switch e.Status {
	case http.StatusMovedPermanently, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		said += ": name that URL"
	}
	return said
}

// hidden returns an error that hides the secrets, also in where a redirect leads.
func hidden(secrets *redact.Secrets, err error) error {
	if status, ok := errors.AsType[*StatusError](err); ok {
		status.leadsTo = secrets.Text(status.leadsTo)
	}
	return secrets.Error(err)
}
