// Package programs tests programs on standard input and output, and bridges to them.
package programs

import (
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
)

func TestMain(m *testing.M) { caddytest.Main(m) }
