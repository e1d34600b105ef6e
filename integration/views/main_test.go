// Package views tests rules about who sees and calls what, in front of one server and of several.
package views

import (
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
)

func TestMain(m *testing.M) { caddytest.Main(m) }
