// Package lists tests what clients of one server get: lists from memory, and everything else from
// the server, whatever the server answers.
package lists

import (
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
)

func TestMain(m *testing.M) { caddytest.Main(m) }
