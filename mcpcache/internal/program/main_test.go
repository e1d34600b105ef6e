package program

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/caddy-mcp/mcp-cache/integration/programtest"
)

func TestMain(m *testing.M) {
	programtest.Main()
	goleak.VerifyTestMain(m)
}
