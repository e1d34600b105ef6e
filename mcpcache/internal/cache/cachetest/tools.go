// Package cachetest makes entries for tests.
package cachetest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// Tools returns everybody's list of n tools of some 800 bytes, fetched now.
func Tools(tb testing.TB, n int) *cache.Entry {
	tb.Helper()
	tools := make([]string, n)
	for i := range tools {
		tools[i] = fmt.Sprintf(`{"name":"tool_%d","description":%q,"inputSchema":{"type":"object"}}`, i, strings.Repeat("word ", 140))
	}
	page, err := message.ParsePage([]byte(`{"ttlMs":3600000,"cacheScope":"public","tools":[`+strings.Join(tools, ",")+`]}`), revision.Tools)
	if err != nil {
		tb.Fatal(err)
	}
	return &cache.Entry{
		Kind: revision.Tools, Revision: revision.V20260728, Partition: cache.Public,
		Body: message.Single(revision.Tools, page), Fetched: time.Now(), Lifetime: time.Hour, Mark: cache.Start(),
	}
}
