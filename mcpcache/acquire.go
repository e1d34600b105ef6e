package mcpcache

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/backend"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/identity"
	"github.com/caddy-mcp/mcp-cache/mcpcache/transports/stdio"
)

// acquire takes the backend that key stands for, or makes it. With own it is this
// instance's alone. The names of placeholders are those that the upstream uses, and of
// them those that tell callers apart.
func (h *Handler) acquire(key []byte, own bool, placeholders, telling []string) error {
	h.backend = &backend.Tenant{
		Upstream: h.upstream, Settings: h.settings.backend, Placeholders: placeholders, Store: h.store, Logger: h.logger,
		Sleeper: h.sleeper(),
		Identity: identity.Rules{
			Partition: h.settings.partition, Harmless: h.settings.harmless, Host: h.feedHost,
			Original: identity.TellsOriginal(placeholders), Telling: telling,
		},
	}
	if own {
		h.backend.Instance = h.app.instance
	}
	sum := sha256.Sum256(key)
	return h.backend.Acquire(pool, hex.EncodeToString(sum[:]), h.endpointURL)
}

// program is an upstream that is a program.
type program interface {
	backend.Sleeper
	// Identity tells the program from others of the same configuration: it may act for another
	// account once its secrets have changed.
	Identity() []byte
	// OriginsAreChecked says that requests of foreign pages are refused in front of it.
	OriginsAreChecked()
}

// programOf returns the upstream as a program, nil if it is none.
func programOf(upstream caddyhttp.MiddlewareHandler) program {
	if proxy, ok := upstream.(*reverseproxy.Handler); ok {
		if p, ok := proxy.Transport.(program); ok {
			return p
		}
	}
	return nil
}

// withoutLimits returns the configuration of an upstream. If it is a program, what may change while
// that goes on is left out.
func withoutLimits(raw json.RawMessage) any {
	var proxy map[string]any
	if json.Unmarshal(raw, &proxy) != nil || !runsProgram(proxy["transport"]) {
		return raw
	}
	for _, name := range stdio.Limits {
		delete(proxy["transport"].(map[string]any), name)
	}
	return proxy
}

// servesAll takes over what is so of every program: it is given nothing by which it could tell callers
// apart, or refuse one.
func (h *Handler) servesAll() {
	h.settings.backend.AdmitAll = true
	if h.Scope == "" && len(h.settings.partition) == 0 {
		h.settings.backend.Feed.PublicByDefault = true
	}
}

// sleeper returns the server if it sleeps; nil if it does not, or how long lists are fresh was said.
func (h *Handler) sleeper() backend.Sleeper {
	if p := programOf(h.upstream); p != nil && h.TTL == 0 && len(h.TTLByKind) == 0 {
		return p
	}
	return nil
}

// feedKey returns the part of the configuration, besides the guard, that the backend depends
// on. A reload that does not change it keeps the backend.
func (h *Handler) feedKey(telling []string) ([]byte, error) {
	eras := make([]string, 0, 1) // none for both, however they are written
	for _, era := range h.settings.backend.Feed.Eras {
		eras = append(eras, era.String())
	}
	key, err := json.Marshal(struct {
		Upstream  any
		Guard     json.RawMessage
		Endpoint  string
		Scope     string
		Partition []string
		Always    bool     `json:",omitempty"`
		Harmless  []string `json:",omitempty"`
		Host      string   `json:",omitempty"`
		Telling   []string `json:",omitempty"`
		Eras      []string `json:",omitempty"`
	}{withoutLimits(h.UpstreamRaw), h.GuardRaw, h.Endpoint, h.Scope, h.Partition, h.ScopeAlways, slices.Sorted(maps.Keys(h.settings.harmless)), h.Host, telling, eras})
	if err != nil {
		return nil, fmt.Errorf("upstream: %w", err)
	}
	return key, nil
}
