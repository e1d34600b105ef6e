package feed

import "time"

// State is what a feed is doing.
type State string

const (
	// Connecting: it is finding out whether the upstream speaks its revision.
	Connecting State = "connecting"
	// Hydrating: it is connected and fetches every kind for the first time.
	Hydrating State = "hydrating"
	// Ready: every kind the upstream offers has been fetched, none is failing.
	Ready State = "ready"
	// Degraded: the upstream answers, and some list cannot be used; its copy is served on.
	Degraded State = "degraded"
	// Down: the upstream cannot be reached, or gives no answer.
	Down State = "down"
	// Yielding: the upstream takes one session at a time, and a client has it. Lists
	// come from the upstream once their time is over.
	Yielding State = "yielding"
	// NeedsAuthorization: the upstream refuses the feed's credential.
	NeedsAuthorization State = "needs_authorization"
	// Unsupported: the upstream does not speak this revision. The feed asks
	// again once in a while, and when a client's request shows that it does.
	Unsupported State = "unsupported"
)

// Failure is why the last attempt at something failed.
type Failure struct {
	// Stage is what was attempted: "connect" or the name of a kind.
	Stage string
	// Err is why; its text holds no secret.
	Err error
	// At is when.
	At time.Time
}
