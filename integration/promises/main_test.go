// Package promises tests the promises in every place: in front of one server, several servers and
// programs, with several Caddys on one Redis, and across an upgrade.
package promises

import (
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
)

func TestMain(m *testing.M) { caddytest.Main(m) }
