package report

import (
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/keeper"
)

// Fleet is how the store is through which several instances share their lists.
type Fleet struct {
	// State is together, or away while the store cannot be reached.
	State string    `json:"state"`
	Since time.Time `json:"since"`
	// Failure is why it is away, or why nothing can be saved there; left out if all is well.
	Failure string `json:"last_failure,omitempty"`
	// Ignored is how many stored lists were of no use: damaged, of others, or sealed with other
	// secrets.
	Ignored int `json:"ignored"`
}

// The states of a fleet.
const (
	Together = "together"
	Away     = "away"
)

// describeFleet tells how a store is; nil if it is not shared.
func describeFleet(f *keeper.Fleet) *Fleet {
	if f == nil {
		return nil
	}
	described := &Fleet{State: Together, Since: f.Since, Ignored: f.Ignored}
	switch {
	case f.Failure != nil:
		described.State, described.Failure = Away, f.Failure.Error()
	case f.Saving != nil:
		described.Failure = f.Saving.Error()
	}
	return described
}
