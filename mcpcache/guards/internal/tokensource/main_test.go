package tokensource

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain also checks that no goroutine outlives its source.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
