// Package guards tests whom the server and the cache let in. It also tests that credentials stay
// with their owners.
package guards

import (
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
)

func TestMain(m *testing.M) { caddytest.Main(m) }
