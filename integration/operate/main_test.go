// Package operate tests what operators do and see: commands, the admin API, metrics, events,
// reloads, restarts, memory.
package operate

import (
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
)

func TestMain(m *testing.M) { caddytest.Main(m) }
