package oauth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/caddy-mcp/mcp-cache/mcpcache/guards"
	"github.com/caddy-mcp/mcp-cache/mcpcache/guards/internal/credential"
	"github.com/caddy-mcp/mcp-cache/mcpcache/guards/internal/outbound"
)

const (
	resourceWellKnown = "/.well-known/oauth-protected-resource"   // RFC 9728 section 3
	serverWellKnown   = "/.well-known/oauth-authorization-server" // RFC 8414 section 3
	openIDWellKnown   = "/.well-known/openid-configuration"       // OpenID Connect Discovery section 4

	// maxScope bounds the scope that metadata may ask for, in bytes.
	maxScope = 4 << 10
)

const (
	errResource = credential.UnusableError("protected resource metadata is for another resource")
	errIssuer   = credential.UnusableError("authorization server metadata is for another issuer")
	errMoved    = credential.UnusableError("upstream names another authorization server than before (reload the configuration to accept it)")
	errNoServer = credential.UnusableError("protected resource metadata names no authorization server")
	errNowhere  = credential.UnusableError("the configuration does not tell where the upstream is, so its metadata cannot be found" + outbound.Advice)
)

// authServer is what a token request has to know about its authorization
// server.
type authServer struct {
	token    *url.URL       // token endpoint
	issuer   string         // empty: not known
	methods  []string       // client authentication that it supports, none: not known
	reach    outbound.Reach // of requests to the token endpoint
	named    bool           // by the upstream
	resource string         // that the upstream says it is, empty: not known
	scope    string         // that the upstream wants, empty: not known
}

// discovery finds the authorization server: the configured token endpoint, the
// one in the metadata of the configured issuer, or the one that the upstream's
// refusal leads to, as the MCP authorization chapter says.
type discovery struct {
	http     *outbound.Client
	fixed    *authServer // configured token endpoint
	issuer   string      // configured issuer
	resource []string    // configured resource identifiers
	mutual   bool        // whether the client authenticates with mutual TLS

	mu     sync.Mutex
	hint   hint        // of the upstream's last refusal
	found  *authServer // by the last discovery
	pinned string      // issuer that has issued a token, in discovery from a refusal
}

// hint is what a refusal says about the way to a token.
type hint struct {
	refused  bool   // whether there was one
	endpoint string // of the upstream, empty: not known
	metadata string // URL of its metadata, empty: at the well-known place
	scope    string
}

// resourceMetadata is the part of RFC 9728 section 2 that is used.
type resourceMetadata struct {
	Resource             string   `json:"resource"`
	AuthorizationServers []string `json:"authorization_servers"`
	ScopesSupported      []string `json:"scopes_supported"`
}

// serverMetadata is the part of RFC 8414 section 2 and RFC 8705 section 5 that
// is used.
type serverMetadata struct {
	Issuer        string   `json:"issuer"`
	TokenEndpoint string   `json:"token_endpoint"`
	AuthMethods   []string `json:"token_endpoint_auth_methods_supported"`
	MutualTLS     struct {
		TokenEndpoint string `json:"token_endpoint"`
	} `json:"mtls_endpoint_aliases"`
}

// newDiscovery makes the part that knows the authorization server.
func newDiscovery(ctx context.Context, client *outbound.Client, s *Client, mutual bool) (*discovery, error) {
	d := &discovery{http: client, issuer: s.Issuer, mutual: mutual}
	if !slices.Equal(s.Resource, []string{"off"}) {
		d.resource = s.Resource
	}
	if s.Issuer != "" {
		if _, _, err := outbound.Operators.Parse(ctx, s.Issuer); err != nil {
			return nil, fmt.Errorf("issuer: %w", err)
		}
	}
	if s.TokenEndpoint != "" {
		u, limit, err := outbound.Operators.Parse(ctx, s.TokenEndpoint)
		if err != nil {
			return nil, fmt.Errorf("token_endpoint: %w", err)
		}
		d.fixed = &authServer{token: u, reach: limit}
	}
	return d, nil
}

// ready tells whether locate has anything to go by. Without a configured token
// endpoint or issuer, the upstream must have refused a request first.
func (d *discovery) ready() bool {
	if !d.upstreamDecides() {
		return true
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.hint.refused
}

// upstreamDecides tells whether the upstream names the authorization server.
func (d *discovery) upstreamDecides() bool { return d.fixed == nil && d.issuer == "" }

// learn takes in what a refusal says. What was found by another hint counts no
// more.
func (d *discovery) learn(challenge guards.Challenge) {
	heard := hint{refused: true, endpoint: challenge.Endpoint}
	if c, ok := findBearer(challenge.WWWAuthenticate); ok {
		heard.metadata = c.params["resource_metadata"]
		heard.scope = c.params["scope"]
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if heard.endpoint == d.hint.endpoint {
		// Some servers tell the whole way only to callers without a token.
		heard.metadata = cmp.Or(heard.metadata, d.hint.metadata)
		heard.scope = cmp.Or(heard.scope, d.hint.scope)
	}
	if heard != d.hint {
		d.hint, d.found = heard, nil
	}
}

// forget makes the next locate ask again: the server has moved, perhaps.
func (d *discovery) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.found = nil
}

// pin notes that a server has issued a token. An upstream that names another
// one later does not get this client's credentials sent there.
func (d *discovery) pin(server *authServer) {
	if !d.upstreamDecides() {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pinned = server.issuer
}

// locate returns the authorization server. Only one goroutine at a time calls
// it.
func (d *discovery) locate(ctx context.Context) (*authServer, error) {
	if d.fixed != nil {
		return d.fixed, nil
	}
	d.mu.Lock()
	heard, found, pinned := d.hint, d.found, d.pinned
	d.mu.Unlock()
	if found != nil {
		return found, nil
	}
	var err error
	if d.issuer != "" {
		found, err = d.fromIssuer(ctx, d.issuer, outbound.Operators)
	} else {
		found, err = d.fromHint(ctx, heard, pinned)
	}
	if err != nil {
		return nil, fmt.Errorf("discovering the token endpoint: %w", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.hint == heard {
		d.found = found
	}
	return found, nil
}

// fromHint goes from the upstream's refusal to its authorization server.
func (d *discovery) fromHint(ctx context.Context, heard hint, pinned string) (*authServer, error) {
	limits := &outbound.Bounds{Verified: d.http.Verifies()}
	if heard.endpoint != "" {
		endpoint, err := url.Parse(heard.endpoint)
		if err != nil || endpoint.Host == "" {
			return nil, errors.New("upstream's endpoint is not a URL")
		}
		limits.Own = endpoint
	}
	metadata, err := d.resourceMetadata(ctx, heard.metadata, limits)
	if err != nil {
		return nil, err
	}
	if len(metadata.AuthorizationServers) == 0 {
		return nil, errNoServer
	}
	name := metadata.AuthorizationServers[0]
	if pinned != "" {
		if !slices.Contains(metadata.AuthorizationServers, pinned) {
			return nil, errMoved
		}
		name = pinned
	}
	server, err := d.fromIssuer(ctx, name, limits)
	if err != nil {
		return nil, err
	}
	server.named = true
	server.resource, server.scope = metadata.Resource, heard.scope
	if server.scope == "" {
		server.scope = strings.Join(metadata.ScopesSupported, " ")
	}
	if len(server.scope) > maxScope {
		return nil, fmt.Errorf("upstream asks for a scope of more than %d bytes", maxScope)
	}
	return server, nil
}

// resourceMetadata reads the upstream's metadata (RFC 9728) from the URL that
// its refusal gave, or else from the well-known places.
func (d *discovery) resourceMetadata(ctx context.Context, given string, limits *outbound.Bounds) (*resourceMetadata, error) {
	candidates := []string{given}
	switch {
	case limits.Own == nil && (given == "" || len(d.resource) == 0):
		return nil, errNowhere
	case given == "":
		candidates = []string{
			wellKnown(limits.Own, resourceWellKnown, limits.Own.EscapedPath()),
			wellKnown(limits.Own, resourceWellKnown, ""),
		}
	}
	metadata, err := firstDocument[resourceMetadata](ctx, d.http, candidates, limits)
	if err != nil {
		return nil, fmt.Errorf("reading protected resource metadata: %w", err)
	}
	if !d.isUpstream(metadata.Resource, limits.Own) {
		wanted := d.resource
		if len(wanted) == 0 {
			wanted = []string{outbound.Place(ctx, limits.Own)}
		}
		return nil, fmt.Errorf("%w: %q and not %q", errResource, outbound.Shown(ctx, metadata.Resource), wanted)
	}
	return metadata, nil
}

// isUpstream tells whether a resource identifier stands for the upstream: one
// of those configured, or else the endpoint or a prefix of it. RFC 9728 section
// 3.3 wants the identifier to be the one that was asked for; MCP servers also
// name themselves by the root of their host (RFC 8707 section 2 lets them).
func (d *discovery) isUpstream(resource string, endpoint *url.URL) bool {
	if len(d.resource) > 0 {
		return slices.Contains(d.resource, resource)
	}
	u, err := url.Parse(resource)
	if err != nil || u.Fragment != "" || u.RawQuery != "" || outbound.Origin(u) != outbound.Origin(endpoint) {
		return false
	}
	path := strings.TrimSuffix(u.EscapedPath(), "/")
	rest, ok := strings.CutPrefix(endpoint.EscapedPath(), path)
	return ok && (rest == "" || rest[0] == '/')
}

// fromIssuer reads an authorization server's metadata from its well-known
// places, in the order of the MCP authorization chapter.
func (d *discovery) fromIssuer(ctx context.Context, name string, limits *outbound.Bounds) (*authServer, error) {
	issuer, _, err := limits.Parse(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("issuer: %w", err)
	}
	path := strings.TrimSuffix(issuer.EscapedPath(), "/")
	candidates := []string{
		wellKnown(issuer, serverWellKnown, path),
		wellKnown(issuer, openIDWellKnown, path),
	}
	if path != "" {
		candidates = append(candidates, wellKnown(issuer, path+openIDWellKnown, ""))
	}
	metadata, err := firstDocument[serverMetadata](ctx, d.http, candidates, limits)
	if err != nil {
		return nil, fmt.Errorf("reading authorization server metadata: %w", err)
	}
	if metadata.Issuer != name {
		return nil, fmt.Errorf("%w: %q and not %q", errIssuer, outbound.Shown(ctx, metadata.Issuer), outbound.Shown(ctx, name))
	}
	endpoint := metadata.TokenEndpoint
	if d.mutual && metadata.MutualTLS.TokenEndpoint != "" {
		endpoint = metadata.MutualTLS.TokenEndpoint
	}
	token, limit, err := limits.Parse(ctx, endpoint)
	if err != nil {
		return nil, fmt.Errorf("token endpoint in the authorization server metadata: %w", err)
	}
	return &authServer{token: token, issuer: metadata.Issuer, methods: metadata.AuthMethods, reach: limit}, nil
}

// firstDocument reads the first of several documents that is there, and returns
// the first error if none is.
func firstDocument[T any](ctx context.Context, client *outbound.Client, candidates []string, limits *outbound.Bounds) (*T, error) {
	var problem error
	for _, candidate := range candidates {
		document := new(T)
		u, limit, err := limits.Parse(ctx, candidate)
		if err == nil {
			err = client.GetJSON(ctx, u, limit, document)
		}
		if err == nil {
			return document, nil
		}
		if problem == nil {
			problem = err
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, problem
}

// wellKnown puts a well-known path between the origin and a path.
func wellKnown(base *url.URL, known, path string) string {
	return base.Scheme + "://" + base.Host + known + strings.TrimSuffix(path, "/")
}
