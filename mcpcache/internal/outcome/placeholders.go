package outcome

import "github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"

// Placeholder returns the value of a placeholder about a request, and false for any other placeholder. The outcome may
// be asked for before the request has been answered.
func Placeholder(key string, a Answered) (value any, ok bool) {
	switch key {
	case "http.mcp_cache.outcome":
		return a.Outcome().String(), true
	case "http.mcp_cache.method":
		return a.MethodName(), true
	case "http.mcp_cache.kind":
		if k, ok := revision.KindOf(a.MethodName()); ok {
			return k.String(), true
		}
		return "", true
	case "http.mcp_cache.era":
		return a.Revision().Era().String(), true
	case "http.mcp_cache.revision":
		return a.Revision().String(), true
	case "http.mcp_cache.tool":
		return a.Tool(), true
	case "http.mcp_cache.server":
		return a.Server(), true
	}
	return nil, false
}
