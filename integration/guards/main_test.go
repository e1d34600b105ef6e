// Package guards tests who is let in, by the server and by the cache, and that credentials stay
// with those whom they belong to.
package guards

import (
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
)

func TestMain(m *testing.M) { caddytest.Main(m) }
