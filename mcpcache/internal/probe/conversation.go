package probe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/jsonrpc"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/version"
)

const (
	clientName = "mcp_cache-check"

	// farewellTimeout is how long the request that ends a session may take.
	farewellTimeout = time.Second

	maxSessionID = 1 << 10
)

// Capabilities of the clients that are compared: one that offers nothing, as
// which the cache asks, and one that offers what most clients may.
var (
	noCapabilities  = json.RawMessage(`{}`)
	allCapabilities = json.RawMessage(`{"sampling":{},"elicitation":{},"roots":{"listChanged":true}}`)
)

// conversation is what one caller has with the server at one revision: a legacy
// session, or nothing but the revision.
type conversation struct {
	*client

	url          string
	revision     revision.Revision
	capabilities json.RawMessage
	session      string
	info         message.ServerInfo
	server       string // name and version, as it calls itself
	id           int

	acknowledgement string // of notifications/initialized, if not as the protocol has it
	dropAnnounced   func() // ends the notification that was not answered; nil if it was
}

// refusedError says that the server answered, and that it was no result.
type refusedError struct {
	method string
	answer *answer
}

func (e *refusedError) Error() string {
	if e.answer.rpc != nil {
		return fmt.Sprintf("%s: %v", e.method, e.answer.rpc)
	}
	return fmt.Sprintf("%s: HTTP %d, %s", e.method, e.answer.status, orNone(e.answer.media))
}

// otherRevisionError says that the server speaks revisions, but not this one.
type otherRevisionError struct {
	wanted   revision.Revision
	versions []string
}

func (e *otherRevisionError) Error() string {
	return fmt.Sprintf("server does not speak %s but %q", e.wanted, e.versions)
}

// open begins a conversation. A legacy server may choose an older revision,
// which then is the conversation's.
func (c *conversation) open(ctx context.Context) error {
	if c.revision.Era() == revision.Modern {
		return c.discover(ctx)
	}
	return c.initialize(ctx)
}

func (c *conversation) discover(ctx context.Context) error {
	result, err := c.call(ctx, revision.Discover.Method(), nil)
	if err != nil {
		return err
	}
	if err := c.learn(result); err != nil {
		return err
	}
	if !slices.Contains(c.info.SupportedVersions, c.revision.String()) {
		return &otherRevisionError{c.revision, c.info.SupportedVersions}
	}
	return nil
}

func (c *conversation) initialize(ctx context.Context) error {
	const method = "initialize"
	c.id++
	a, err := c.post(ctx, c.url, nil, c.id, rpc(c.id, method, map[string]any{
		"protocolVersion": c.revision.String(),
		"capabilities":    c.capabilities,
		"clientInfo":      clientInfo(),
	}))
	if err != nil {
		return fmt.Errorf("calling %s: %w", method, err)
	}
	c.oddities.note(a)
	if a.status != http.StatusOK || a.result == nil {
		return &refusedError{method, a}
	}
	if c.session = a.header.Get("Mcp-Session-Id"); len(c.session) > maxSessionID {
		return fmt.Errorf("calling %s: the session's ID is longer than %d bytes", method, maxSessionID)
	}
	if err := c.learn(a.result); err != nil {
		c.close(ctx)
		return err
	}
	chosen := revision.Parse(c.info.ProtocolVersion)
	if chosen == revision.Unknown || chosen.Era() != revision.Legacy {
		c.close(ctx)
		return &otherRevisionError{c.revision, []string{c.info.ProtocolVersion}}
	}
	c.revision = chosen
	if err = c.announce(ctx); err != nil {
		c.close(ctx)
	}
	return err
}

// learn takes what a server says of itself.
func (c *conversation) learn(result []byte) (err error) {
	if c.info, err = message.ParseServerInfo(result); err != nil {
		return fmt.Errorf("reading what the server says of itself: %w", err)
	}
	type implementation struct{ Name, Version string }
	var said struct {
		ServerInfo implementation `json:"serverInfo"`
		Meta       struct {
			ServerInfo implementation `json:"io.modelcontextprotocol/serverInfo"`
		} `json:"_meta"`
	}
	// A server that says nothing, or says it otherwise, has no name.
	_ = json.Unmarshal(result, &said)
	if said.ServerInfo.Name == "" {
		said.ServerInfo = said.Meta.ServerInfo
	}
	c.server = shown(said.ServerInfo.Name + " " + said.ServerInfo.Version)
	return nil
}

// call sends one request and returns its result.
func (c *conversation) call(ctx context.Context, method string, params map[string]any) ([]byte, error) {
	if params == nil {
		params = map[string]any{}
	}
	if c.revision.Era() == revision.Modern {
		params["_meta"] = c.meta()
	}
	c.id++
	a, err := c.post(ctx, c.url, c.headers(method), c.id, rpc(c.id, method, params))
	if err != nil {
		return nil, fmt.Errorf("calling %s: %w", method, err)
	}
	c.oddities.note(a)
	if a.status != http.StatusOK || a.result == nil {
		return nil, &refusedError{method, a}
	}
	return a.result, nil
}

func (c *conversation) meta() map[string]any {
	return map[string]any{
		"io.modelcontextprotocol/protocolVersion":    c.revision.String(),
		"io.modelcontextprotocol/clientCapabilities": c.capabilities,
		"io.modelcontextprotocol/clientInfo":         clientInfo(),
	}
}

// headers returns those that go with a request of the conversation.
func (c *conversation) headers(method string) http.Header {
	header := http.Header{"Mcp-Protocol-Version": {c.revision.String()}}
	if c.session != "" {
		header.Set("Mcp-Session-Id", c.session)
	}
	if c.revision.Era() == revision.Modern && method != "" {
		header.Set("Mcp-Method", method)
	}
	return header
}

// close ends the session, if there is one; the server may not want to know.
func (c *conversation) close(ctx context.Context) {
	if c.dropAnnounced != nil {
		defer c.dropAnnounced()
		c.dropAnnounced = nil
	}
	if c.session == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewellTimeout)
	defer cancel()
	if res, err := c.send(ctx, http.MethodDelete, c.url, c.headers(""), nil); err == nil {
		_ = res.Body.Close()
	}
	c.session = ""
}

func rpc(id int, method string, params map[string]any) map[string]any {
	return map[string]any{"jsonrpc": "2.0", "id": id, "method": method, "params": params}
}

func clientInfo() map[string]any {
	return map[string]any{"name": clientName, "version": version.Own()}
}

// notOffered reports whether err says that the server does not have a method.
func notOffered(err error) bool {
	refused, ok := errors.AsType[*refusedError](err)
	return ok && refused.answer.rpc != nil && refused.answer.rpc.Code == jsonrpc.MethodNotFound
}
