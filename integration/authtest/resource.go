package authtest

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// ResourcePath is the well-known place of a resource's metadata.
const ResourcePath = "/.well-known/oauth-protected-resource"

// Resource is a handler that lets requests with the server's tokens through and
// refuses others as the MCP specification says. All other paths are the
// server's: guards let an upstream name no other origin on this host.
type Resource struct {
	// Endpoint is the path of the protected endpoint.
	Endpoint string
	// Silent leaves the URL of the metadata out of refusals.
	Silent bool
	// Scope is what refusals ask for, and what tokens must have.
	Scope string
	// AnyAudience lets tokens for other resources through.
	AnyAudience bool

	server *Server
	next   http.Handler

	mu      sync.Mutex
	edit    func(map[string]any)
	refused int
	expired int
	served  int
	asked   int
}

// Protect returns a resource whose endpoint is next at the path /mcp.
func (s *Server) Protect(next http.Handler) *Resource {
	return &Resource{Endpoint: "/mcp", server: s, next: next}
}

// EditMetadata changes the resource's metadata before they are sent.
func (p *Resource) EditMetadata(edit func(map[string]any)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.edit = edit
}

// Refused tells how many requests were refused.
func (p *Resource) Refused() int { return p.count(&p.refused) }

// Expired tells how many of them had an expired token.
func (p *Resource) Expired() int { return p.count(&p.expired) }

// Served tells how many requests were let through.
func (p *Resource) Served() int { return p.count(&p.served) }

// MetadataRequests tells how often the metadata were asked for.
func (p *Resource) MetadataRequests() int { return p.count(&p.asked) }

func (p *Resource) count(counter *int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return *counter
}

func (p *Resource) add(counter *int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	*counter++
}

// ServeHTTP implements [http.Handler].
func (p *Resource) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	base := baseOf(r)
	switch r.URL.Path {
	case ResourcePath + strings.TrimSuffix(p.Endpoint, "/"):
		p.serveMetadata(w, base)
	case p.Endpoint:
		p.serveEndpoint(w, r, base)
	default:
		p.server.ServeHTTP(w, r)
	}
}

func (p *Resource) serveMetadata(w http.ResponseWriter, base string) {
	p.add(&p.asked)
	metadata := map[string]any{
		"resource":              base + p.Endpoint,
		"authorization_servers": []string{base},
		"scopes_supported":      []string{"mcp:list", "mcp:call"},
	}
	p.mu.Lock()
	edit := p.edit
	p.mu.Unlock()
	if edit != nil {
		edit(metadata)
	}
	writeJSON(w, http.StatusOK, metadata)
}

func (p *Resource) serveEndpoint(w http.ResponseWriter, r *http.Request, base string) {
	raw, found := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	id, err := p.server.Verify(raw)
	if err == nil && !p.AnyAudience && !slices.Contains(id.Audience, base+p.Endpoint) {
		err = ErrInvalid
	}
	if err != nil {
		p.add(&p.refused)
		if errors.Is(err, ErrExpired) {
			p.add(&p.expired)
		}
		p.refuse(w, http.StatusUnauthorized, base, map[bool]string{true: "invalid_token"}[found])
		return
	}
	if p.Scope != "" && !slices.Contains(id.Scope, p.Scope) {
		p.add(&p.refused)
		p.refuse(w, http.StatusForbidden, base, "insufficient_scope")
		return
	}
	p.add(&p.served)
	p.next.ServeHTTP(w, r)
}

// refuse answers with a challenge.
func (p *Resource) refuse(w http.ResponseWriter, status int, base, code string) {
	challenge := `Bearer realm="mcp"`
	if code != "" {
		challenge += fmt.Sprintf(`, error=%q`, code)
	}
	if p.Scope != "" {
		challenge += fmt.Sprintf(`, scope=%q`, p.Scope)
	}
	if !p.Silent {
		challenge += fmt.Sprintf(`, resource_metadata=%q`, base+ResourcePath+p.Endpoint)
	}
	w.Header().Set("WWW-Authenticate", challenge)
	w.WriteHeader(status)
}
