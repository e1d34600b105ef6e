package backend

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/version"
)

// Key is the part of a configuration that a backend depends on. A reload that does not change it
// keeps the backend. So does an upgrade of one instance beside another: the names and the order of
// the fields stay.
type Key struct {
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
}

// Of returns the key for [Ref.Acquire]. identities tell apart the guards and programs that have
// the same configuration. An error says why the configuration is no JSON.
func (k Key) Of(identities ...string) (string, error) {
	text, err := json.Marshal(k)
	if err != nil {
		return "", err
	}
	for _, identity := range identities {
		text = append(text, identity...)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

// FeedValues returns the values that requests of feeds have for the texts of the option partition,
// and for placeholders. url is the feeds' own, and host the Host that they send, or "".
func FeedValues(url, host string, partition, placeholders []string) map[string]string {
	values := make(map[string]string)
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, url, http.NoBody)
	if err != nil {
		return values // no feed can send it
	}
	r.Host = cmp.Or(host, r.Host)
	r.Header.Set("User-Agent", version.Agent())
	replacer := caddy.NewReplacer()
	caddyhttp.PrepareRequest(r, replacer, nil, new(caddyhttp.Server))
	for _, text := range partition {
		values[text] = replacer.ReplaceAll(text, "")
	}
	for _, name := range placeholders {
		values[name], _ = replacer.GetString(name)
	}
	return values
}
