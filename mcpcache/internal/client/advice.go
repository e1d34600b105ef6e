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

// Advice says where a redirect leads, where there is nothing, or what an operator can do about a
// refusal, to be put after the status; "" if there is nothing to say. Where a redirect for people leads, such as to a page
// to sign in at, nothing can be done.
func (e *StatusError) Advice() string {
	switch e.Status {
	case http.StatusMovedPermanently, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		if e.leadsTo != "" {
			return " and leads to " + e.leadsTo + ": name that URL"
		}
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		return " at " + e.path
	case http.StatusUnauthorized:
		if e.anonymous {
			return ": give the feed a credential, with guard or header_up"
		}
		return ": the feed's credential is not accepted"
	case http.StatusForbidden:
		if e.anonymous {
			return ": give the feed a credential, with guard or header_up, or another name, with client_name or header_up User-Agent"
		}
		return ": the feed is not let in with its credential; if names count, give it another with client_name or header_up User-Agent"
	case http.StatusMisdirectedRequest:
		return ": the server answers to another Host; name it with header_up Host, or with the option host"
	}
	if e.leadsTo != "" {
		return " and leads to " + e.leadsTo
	}
	return ""
}

// hidden returns an error that hides the secrets, also in where a redirect leads.
func hidden(secrets *redact.Secrets, err error) error {
	if status, ok := errors.AsType[*StatusError](err); ok {
		status.leadsTo = secrets.Text(status.leadsTo)
	}
	return secrets.Error(err)
}
