// Package bridge translates between the two eras of the protocol. It turns a client's request into
// one of the server's era, and the server's answer into one of the client's era. So every client
// can use every server.
//
// The package is pure: it knows nothing of HTTP, of Caddy or of time.
package bridge

import (
	"maps"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// ToLegacy returns a modern client's request as a legacy server takes it, with another id.
// Servers of both eras take a request for a modern one by its _meta.
func ToLegacy(request, id []byte) ([]byte, error) {
	request, err := message.WithValue(request, id, "id")
	if err != nil {
		return nil, err
	}
	meta, ok := message.ValueAt(request, "params", "_meta")
	if !ok {
		return request, nil
	}
	if meta, err = message.Without(meta, message.MetaRevision, message.MetaCapabilities, message.MetaClientInfo, message.MetaLogLevel); err != nil {
		return nil, err
	}
	return message.WithValue(request, meta, "params", "_meta")
}

// Client is what a modern request says of who sends it.
type Client struct {
	Capabilities  []byte // a JSON object
	Name, Version string // "": it does not say
	Level         string // of log messages; "" for none
}

// ToModern returns a legacy client's request as a modern server takes it.
func ToModern(request []byte, as Client) ([]byte, error) {
	meta, ok := message.ValueAt(request, "params", "_meta")
	if !ok {
		meta = []byte("{}")
	}
	members := map[string][]byte{message.MetaRevision: quote(revision.LatestModern.String()), message.MetaCapabilities: as.Capabilities}
	if as.Name != "" {
		members[message.MetaClientInfo] = clientInfo(as)
	}
	if as.Level != "" {
		members[message.MetaLogLevel] = quote(as.Level)
	}
	var err error
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if meta, err = message.WithValue(meta, members[name], name); err != nil {
			return nil, err
		}
	}
	return message.WithValue(request, meta, "params", "_meta")
}

func clientInfo(as Client) []byte {
	info := append([]byte(`{"name":`), quote(as.Name)...)
	return append(append(append(info, `,"version":`...), quote(as.Version)...), '}')
}

func quote(text string) []byte {
	quoted, _ := jsontext.AppendQuote(nil, text) // invalid UTF-8 is replaced
	return quoted
}
