package toolkit

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/jsonrpc"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/outcome"
)

// wellKnown are the beginnings of the paths of the metadata by which clients find out where a
// caller can log in (RFC 9728 section 3, RFC 8414 section 3, OpenID Connect Discovery 1.0
// section 4).
var wellKnown = []string{
	"/.well-known/oauth-protected-resource", "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration",
}

// metadataPath returns the path of the door's metadata that a path of ours stands for. It reports false for what is not
// about metadata. The path ends in that of our endpoint, in front of which a site may have stripped something, or in that of
// the door's. Of an authorization server, the path may have that of its issuer behind it.
func (e *Endpoint) metadataPath(asked string) (string, bool) {
	if asked == e.Settings.Path+wellKnown[2] {
		return e.doorPath() + wellKnown[2], true
	}
	for i, prefix := range wellKnown {
		suffix, ok := strings.CutPrefix(asked, prefix)
		switch {
		case !ok:
		case suffix == "":
			return prefix, true
		case suffix == e.Settings.Path, suffix == e.doorPath(), i == 0 && strings.HasSuffix(suffix, e.Settings.Path):
			return prefix + e.doorPath(), true
		case i > 0 && issuerPath.MatchString(suffix) && suffix == path.Clean(suffix):
			return prefix + suffix, true
		}
	}
	return "", false
}

// issuerPath matches the paths of issuers that are looked for. They lead nowhere else.
var issuerPath = regexp.MustCompile(`^(?:/[A-Za-z0-9._~-]+)+$`)

func (e *Endpoint) doorPath() string {
	if e.door == nil {
		return e.Settings.Path
	}
	return cmp.Or(e.door.path, "/")
}

// elsewhere answers a request for another path than the endpoint's, unless its origin is refused.
// The metadata about where a caller can log in are the door's. Without a door there are none, and
// it must not look as if there were (RFC 9728 section 3). What pages may do at the next handlers
// is these handlers' affair, but for pages that have had their names resolve to this machine.
func (e *Endpoint) elsewhere(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	target, ok := e.metadataPath(r.URL.Path)
	foreign := e.Settings.Origins.RefusesHost(r)
	if ok && e.door != nil {
		foreign = e.Settings.Origins.RefusesElsewhere(r, e.door.LendsCredentials)
	}
	if foreign.Reason != "" {
		return newRequest(e, w, r).refuse(foreign) // metrics do not count it, as in front of one server
	}
	switch {
	case !ok && !isWellKnown(r.URL.Path):
		return next.ServeHTTP(w, r)
	case !ok || e.door == nil:
		return caddyhttp.Error(http.StatusNotFound, errors.New("the toolkit has no such metadata"))
	}
	v := newRequest(e, w, r)
	defer v.done()
	v.server, v.status = e.door, statusRouted
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		return v.metadata(next, target)
	case http.MethodOptions:
		return v.preflight()
	}
	return v.notAllowed("metadata is read by GET", http.MethodGet+", "+http.MethodHead)
}

// isWellKnown reports whether a path may be taken for that of metadata.
func isWellKnown(path string) bool {
	return strings.HasPrefix(path, "/.well-known/oauth-") || strings.HasPrefix(path, wellKnown[2])
}

// metadata hands on the door's.
func (q *request) metadata(next caddyhttp.Handler, target string) error {
	q.outcome = outcome.Routed
	r := q.r.WithContext(q.r.Context()) // a copy
	r.URL, r.RequestURI, r.Host = &url.URL{Path: target}, target, q.server.Host
	r.Header, r.Body, r.ContentLength, r.TransferEncoding, r.Trailer = passedOn(q.r.Header), http.NoBody, 0, nil, nil
	m := &metadata{ResponseWriter: q.w, request: q, header: make(http.Header)}
	err := q.server.Upstream.ServeHTTP(m, r, next)
	if m.wrote || err == nil {
		q.endpoint.note(q.server, noMetadata, nil)
		return err
	}
	if r.Context().Err() != nil {
		return err
	}
	q.endpoint.note(q.server, noMetadata, err)
	// Caddy would log an error of ours for each request.
	return q.fail(jsonrpc.Failed(http.StatusBadGateway, fmt.Sprintf("the MCP server %q does not show its metadata", q.server.Name)))
}

// metadata is the response writer of the door's.
type metadata struct {
	http.ResponseWriter

	request *request
	header  http.Header
	wrote   bool
	cut     bool // it is no metadata
}

// Header implements [http.ResponseWriter].
func (m *metadata) Header() http.Header { return m.header }

// WriteHeader implements [http.ResponseWriter].
func (m *metadata) WriteHeader(status int) {
	if m.wrote || status < http.StatusOK {
		return
	}
	m.wrote = true
	h := m.ResponseWriter.Header()
	for _, name := range returned {
		if values, has := m.header[name]; has {
			h[name] = values
		}
	}
	if m.cut = status >= http.StatusMultipleChoices && status < http.StatusBadRequest; m.cut {
		delete(h, "Content-Length")
		status = http.StatusNotFound // it would lead past us
	}
	h["Cache-Status"] = []string{m.request.endpoint.status.Name + m.request.status}
	m.request.AllowPage(h)
	m.ResponseWriter.WriteHeader(status)
}

// Write implements [io.Writer].
func (m *metadata) Write(p []byte) (int, error) {
	m.WriteHeader(http.StatusOK)
	if m.cut {
		return len(p), nil
	}
	return m.ResponseWriter.Write(p)
}

// Unwrap returns the writer below, for [http.ResponseController].
func (m *metadata) Unwrap() http.ResponseWriter { return m.ResponseWriter }
