package mcpcache

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/backend"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/identity"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/origin"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/version"
)

// acquire takes the backend that key stands for, or makes it. With own it is this
// instance's alone. The names of placeholders are those that the upstream uses, and of
// them those that tell callers apart.
func (h *Handler) acquire(key []byte, own bool, placeholders, telling []string) error {
	h.backend = &backend.Tenant{
		Upstream: h.upstream, Settings: h.settings.backend, Placeholders: placeholders, Store: h.store, Logger: h.logger,
		Sleeper: h.sleeper(),
		Identity: identity.Rules{
			Partition: h.settings.partition, Harmless: h.settings.harmless, Host: h.feedHost, SameHosts: folded(h.SameHosts),
			Original: identity.TellsOriginal(placeholders), Telling: telling,
			FeedValues: h.feedValues(telling), MessagesOnly: programOf(h.upstream) != nil,
		},
	}
	if own {
		h.backend.Instance = h.app.instance
	}
	if h.sharing != nil {
		h.backend.Secrets = h.sharing.await
	}
	sum := sha256.Sum256(key)
	if err := h.backend.Acquire(pool, hex.EncodeToString(sum[:]), h.endpointURL); err != nil {
		return err
	}
	if p := programOf(h.upstream); p != nil {
		p.ShareMemory(h.backend.Messages)
	}
	return nil
}

// feedValues returns the values that the feeds' requests have for the placeholders of the
// option partition and of the upstream.
func (h *Handler) feedValues(telling []string) map[string]string {
	values := make(map[string]string)
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, h.endpointURL, http.NoBody)
	if err != nil {
		return values // no feed can send it
	}
	r.Host = cmp.Or(h.settings.backend.Host, r.Host)
	r.Header.Set("User-Agent", version.Agent())
	replacer := caddy.NewReplacer()
	caddyhttp.PrepareRequest(r, replacer, nil, new(caddyhttp.Server))
	for _, text := range h.settings.partition {
		values[text] = replacer.ReplaceAll(text, "")
	}
	for _, name := range telling {
		values[name], _ = replacer.GetString(name)
	}
	return values
}

// folded returns Hosts in lower case and in order.
func folded(hosts []string) (in []string) {
	for _, host := range hosts {
		in = append(in, origin.FoldHost(host))
	}
	slices.Sort(in)
	return in
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
		SameHosts []string `json:",omitempty"`
		Client    string   `json:",omitempty"`
	}{withoutLimits(h.UpstreamRaw), h.GuardRaw, h.Endpoint, h.Scope, h.Partition, h.ScopeAlways, slices.Sorted(maps.Keys(h.settings.harmless)), h.Host, telling, eras, folded(h.SameHosts), h.ClientName})
	if err != nil {
		return nil, fmt.Errorf("upstream: %w", err)
	}
	return key, nil
}
