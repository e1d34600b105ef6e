package client

import (
	"bytes"
	"encoding/json"
	"maps"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// MaxServerInfo is the largest result of initialize or server/discover that is
// kept, in bytes.
const MaxServerInfo = 64 << 10

// ServerInfo is a server's description of itself: the result of initialize, or of
// server/discover. It is immutable.
type ServerInfo struct {
	// ServerInfo is what we understand of it: the names of capabilities, and which of
	// them announce changes. Of a result above [MaxServerInfo], it has only the
	// capabilities that lists need.
	message.ServerInfo

	// Revision is that of the request.
	Revision revision.Revision
	// Result is the whole result as the server wrote it, with its capabilities,
	// instructions and serverInfo; nil if it is larger than [MaxServerInfo].
	Result json.RawMessage
	// Size is how many bytes the result had.
	Size int
}

// parseServerInfo takes apart a result at that revision. It keeps none of its
// bytes alive.
func parseServerInfo(r revision.Revision, result []byte) (*ServerInfo, error) {
	parsed, err := message.ParseServerInfo(result)
	if err != nil {
		return nil, err
	}
	info := &ServerInfo{ServerInfo: parsed, Revision: r, Size: len(result)}
	if len(result) <= MaxServerInfo {
		info.Result = bytes.Clone(result)
		return info, nil
	}
	needed := make(map[string]bool)
	for _, k := range revision.Kinds() {
		needed[k.Capability()] = true
	}
	unneeded := func(name string, _ bool) bool { return !needed[name] }
	maps.DeleteFunc(info.Capabilities, unneeded)
	maps.DeleteFunc(info.ListChanged, unneeded)
	info.Capabilities, info.ListChanged = maps.Clone(info.Capabilities), maps.Clone(info.ListChanged)
	info.SupportedVersions = knownVersions(info.SupportedVersions)
	return info, nil
}

// knownVersions returns those versions that we know of, each once.
func knownVersions(versions []string) []string {
	var known []string
	for _, r := range revision.All() {
		for _, version := range versions {
			if revision.Parse(version) == r {
				known = append(known, r.String())
				break
			}
		}
	}
	return known
}
