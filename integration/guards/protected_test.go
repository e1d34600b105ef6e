package guards

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	mcpgo "github.com/mark3labs/mcp-go/mcp"
	mcpgoserver "github.com/mark3labs/mcp-go/server"
	sdkauth "github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/caddy-mcp/mcp-cache/integration/authtest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

const (
	feedAccount = "feed"   // the subject of the feed's tokens
	userAccount = "user"   // that of a client's
	listScope   = "mcp:ls" // what protected servers ask for
)

// protected is an MCP server made with an SDK that lets only bearers of tokens
// in. It counts who came.
type protected struct {
	*fixture.Host

	t      testing.TB
	issuer string // of its authorization server, "" if it names none
	life   time.Duration

	mu     sync.Mutex
	serve  http.Handler
	verify authtest.Verifier
	door   func(raw string, id authtest.Identity) error
	late   func() bool
	came   map[visit]int
}

// visit is how a request to the endpoint fared.
type visit struct {
	feed    bool
	subject string // "" without a token that means anything
	fate    string // in, refused, expired, or expired on its way
}

// protectedServers are the ways to make one.
var protectedServers = map[string]func(*protected) (http.Handler, func()){
	"go-sdk": newProtectedGoSDK,
	"mcp-go": newProtectedMCPGo,
}

// newProtected starts a protected server whose lists everybody with a token
// may share for that long. An issuer of "" leaves it without metadata.
func newProtected(t testing.TB, sdk, issuer string, verify authtest.Verifier, life time.Duration) *protected {
	t.Helper()
	p := &protected{t: t, issuer: issuer, verify: verify, life: life, came: make(map[visit]int)}
	p.Host = fixture.NewDownHost(t, p)
	handler, closed := protectedServers[sdk](p)
	p.setHandler(handler)
	t.Cleanup(func() {
		p.Drain()
		closed()
	})
	p.Start()
	return p
}

// authorizes tells whether a path is the authorization server's: the server says
// that it is at its own origin, as guards let it name no other on this host.
func (p *protected) authorizes(path string) bool {
	return p.issuer != "" && path != "/mcp" && !strings.HasPrefix(path, authtest.ResourcePath)
}

// authorize has the authorization server answer.
func (p *protected) authorize(w http.ResponseWriter, r *http.Request) {
	target, err := url.Parse(p.issuer)
	if err != nil {
		p.t.Error(err)
		return
	}
	(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host
	}}).ServeHTTP(w, r)
}

// ServeHTTP implements [http.Handler].
func (p *protected) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if p.authorizes(r.URL.Path) {
		p.authorize(w, r)
		return
	}
	if r.URL.Path == "/mcp" {
		raw, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		id, err := p.check(raw)
		v := visit{feed: !strings.HasPrefix(r.UserAgent(), scripted.ClientAgent), subject: id.Subject, fate: "in"}
		switch {
		case err == authtest.ErrExpired && p.isLate():
			v.fate = "expired on its way"
		case err == authtest.ErrExpired:
			v.fate = "expired"
		case err != nil:
			v.fate = "refused"
		}
		p.mu.Lock()
		p.came[v]++
		p.mu.Unlock()
	}
	p.handler().ServeHTTP(w, r)
}

func (p *protected) handler() http.Handler {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.serve
}

// setHandler replaces what answers all requests.
func (p *protected) setHandler(h http.Handler) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.serve = h
}

// check is who lets in.
func (p *protected) check(raw string) (authtest.Identity, error) {
	p.mu.Lock()
	verify, door := p.verify, p.door
	p.mu.Unlock()
	id, err := verify(raw)
	if err == nil && door != nil {
		err = door(raw, id)
	}
	return id, err
}

// setDoor refuses bearers of good tokens, too; nil refuses nobody.
func (p *protected) setDoor(door func(raw string, id authtest.Identity) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.door = door
}

// setLate says how to know that requests are late through no fault of their
// senders.
func (p *protected) setLate(late func() bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.late = late
}

func (p *protected) isLate() bool {
	p.mu.Lock()
	late := p.late
	p.mu.Unlock()
	return late != nil && late()
}

// refuseFeed makes all tokens of the feed's account no good.
func (p *protected) refuseFeed() {
	p.setDoor(func(_ string, id authtest.Identity) error {
		if id.Subject == feedAccount {
			return authtest.ErrInvalid
		}
		return nil
	})
}

// visits counts those that are wanted.
func (p *protected) visits(wanted func(visit) bool) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for v, count := range p.came {
		if wanted(v) {
			n += count
		}
	}
	return n
}

// wantOwnAccounts fails unless each request that was let in was its sender's.
func (p *protected) wantOwnAccounts(t testing.TB) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for v, n := range p.came {
		if v.fate == "in" && v.feed != (v.subject == feedAccount) {
			t.Errorf("%d requests (feed: %v) came in the name of %q", n, v.feed, v.subject)
		}
	}
}

// challenge is the URL of the server's metadata, "" if it has none.
func (p *protected) metadataURL() string {
	if p.issuer == "" {
		return ""
	}
	return "http://" + p.Addr + authtest.ResourcePath + "/mcp"
}

// newProtectedGoSDK makes a server with the official SDK, its bearer middleware
// and its protected resource metadata.
func newProtectedGoSDK(p *protected) (http.Handler, func()) {
	server := mcp.NewServer(&mcp.Implementation{Name: "protected", Version: "1"}, &mcp.ServerOptions{
		SetCacheable: func(_ context.Context, _ mcp.Request, c *mcp.Cacheable) {
			c.TTLMs, c.CacheScope = int(p.life.Milliseconds()), "public"
		},
	})
	text := func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "done"}}}, nil
	}
	for i := range 3 {
		server.AddTool(&mcp.Tool{Name: fmt.Sprintf("tool-%d", i), InputSchema: map[string]any{"type": "object"}}, text)
	}
	server.AddPrompt(&mcp.Prompt{Name: "prompt"}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{}}, nil
	})
	server.AddResource(&mcp.Resource{URI: "test://note", Name: "note"}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{}, nil
	})
	verifier := func(_ context.Context, raw string, _ *http.Request) (*sdkauth.TokenInfo, error) {
		id, err := p.check(raw)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", sdkauth.ErrInvalidToken, err)
		}
		return &sdkauth.TokenInfo{Scopes: id.Scope, Expiration: id.Expires, UserID: id.Subject}, nil
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", sdkauth.RequireBearerToken(verifier, &sdkauth.RequireBearerTokenOptions{
		ResourceMetadataURL: p.metadataURL(), Scopes: []string{listScope},
	})(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true})))
	if p.issuer != "" {
		mux.Handle(authtest.ResourcePath+"/mcp", sdkauth.ProtectedResourceMetadataHandler(&oauthex.ProtectedResourceMetadata{
			Resource: p.URL, AuthorizationServers: []string{"http://" + p.Addr}, ScopesSupported: []string{listScope},
		}))
	}
	return mux, func() {
		for session := range server.Sessions() {
			_ = session.Close() // one whose client is gone cannot be closed in order
		}
	}
}

// newProtectedMCPGo makes a server with mcp-go, which serves the metadata; the
// door is ours, as that SDK has none.
func newProtectedMCPGo(p *protected) (http.Handler, func()) {
	m := mcpgoserver.NewMCPServer("protected", "1",
		mcpgoserver.WithToolCapabilities(true), mcpgoserver.WithPromptCapabilities(true),
		mcpgoserver.WithResourceCapabilities(true, true),
		mcpgoserver.WithCacheHints(p.life.Milliseconds(), mcpgo.CacheScopePublic))
	for i := range 3 {
		m.AddTool(mcpgo.NewTool(fmt.Sprintf("tool-%d", i)), func(context.Context, mcpgo.CallToolRequest) (*mcpgo.CallToolResult, error) {
			return mcpgo.NewToolResultText("done"), nil
		})
	}
	m.AddPrompt(mcpgo.NewPrompt("prompt"), func(context.Context, mcpgo.GetPromptRequest) (*mcpgo.GetPromptResult, error) {
		return mcpgo.NewGetPromptResult("", []mcpgo.PromptMessage{}), nil
	})
	m.AddResource(mcpgo.NewResource("test://note", "note"), func(context.Context, mcpgo.ReadResourceRequest) ([]mcpgo.ResourceContents, error) {
		return nil, nil
	})
	options := []mcpgoserver.StreamableHTTPOption{
		mcpgoserver.WithStateful(true), mcpgoserver.WithStreamableHTTPLogger(slog.New(slog.DiscardHandler)),
	}
	if p.issuer != "" {
		options = append(options, mcpgoserver.WithProtectedResourceMetadata(mcpgoserver.ProtectedResourceMetadataConfig{
			Resource: p.URL, AuthorizationServers: []string{"http://" + p.Addr}, ScopesSupported: []string{listScope},
		}))
	}
	handler := mcpgoserver.NewStreamableHTTPServer(m, options...)
	mux := http.NewServeMux()
	mux.Handle(authtest.ResourcePath+"/", handler)
	mux.Handle("/mcp", p.requireToken(handler))
	return mux, func() { handler.CloseSessions(context.Background()) }
}

// requireToken lets bearers of tokens in (RFC 6750 section 3).
func (p *protected) requireToken(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, presented := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		_, err := p.check(raw)
		if err == nil {
			next.ServeHTTP(w, r)
			return
		}
		challenge := fmt.Sprintf("Bearer scope=%q", listScope)
		if presented {
			challenge += `, error="invalid_token"`
		}
		if url := p.metadataURL(); url != "" {
			challenge += fmt.Sprintf(", resource_metadata=%q", url)
		}
		w.Header().Set("WWW-Authenticate", challenge)
		http.Error(w, "token needed", http.StatusUnauthorized)
	})
}

// presented reports whether a request has come with that token.
func (p *protected) presented(raw string) bool {
	return len(p.Requests(func(r *fixture.Request) bool { return r.Header.Get("Authorization") == "Bearer "+raw })) > 0
}
