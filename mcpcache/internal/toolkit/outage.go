package toolkit

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// trouble is something by which a server fails requests of callers.
type trouble uint8

const (
	closedDoor trouble = iota
	noMetadata
	noCredential
	noAnswer
	notOpening
	numTroubles
)

// troubles say in the log that requests begin to fail by each, and that one has not.
var troubles = [numTroubles]struct{ begins, ends string }{
	closedDoor:   {"door does not answer", "door answers again"},
	noMetadata:   {"door does not show its metadata", "door shows its metadata again"},
	noCredential: {"guard has no credential", "guard has a credential again"},
	noAnswer:     {"server did not answer", "server answers again"},
	notOpening:   {"server does not open a session for a client", "server opens sessions for clients again"},
}

// note takes what has become of a request that trouble with a server could fail; nil is that there was
// none. However many requests fail, the log has one line, and one when that is over.
func (e *Endpoint) note(s *Server, t trouble, err error) {
	if errors.Is(err, context.Canceled) || !s.outages[t].isNews(err != nil, time.Now()) {
		return
	}
	if err != nil {
		e.Logger.Warn(troubles[t].begins, zap.String("server", s.Name), zap.Error(err))
		return
	}
	e.Logger.Info(troubles[t].ends, zap.String("server", s.Name))
}

// quiet is the least time between the beginnings of two outages that are logged. A caller may know a request
// that fails and another one that does not, and would fill the log by sending both in turns.
const quiet = time.Minute

// outage is the time for which a server fails requests by one trouble.
type outage struct {
	logged atomic.Bool // that it has begun, and not that it is over

	mu    sync.Mutex
	began time.Time // when that was logged last
}

// isNews reports whether the log has to say that the outage has begun, or is over.
func (o *outage) isNews(failing bool, now time.Time) bool {
	if failing == o.logged.Load() {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if failing == o.logged.Load() || failing && now.Sub(o.began) < quiet {
		return false
	}
	if failing {
		o.began = now
	}
	o.logged.Store(failing)
	return true
}
