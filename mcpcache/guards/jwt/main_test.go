package jwt

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain also checks that no goroutine outlives its guard.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
