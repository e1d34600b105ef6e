package outbound

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain also checks that no goroutine outlives its client.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
