package mcpcache

import (
	"sync"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/keeper"
)

// shutdownTimeout is how long a configuration waits when it ends: for the
// sessions of all its feeds to be closed and for what is still to be saved, all
// of it together. Somebody waits for a reload, and for a process to stop.
const shutdownTimeout = keeper.ShutdownTimeout

// shutdown ends the backends of the handlers of one configuration at the same
// time. Caddy cleans handlers up one after the other; only the last one waits.
type shutdown struct {
	mu       sync.Mutex
	handlers int // that have been added and are not done
	ending   []<-chan struct{}
	begun    time.Time // when the first of them began to end
}

// add counts a handler. It has to call done.
func (s *shutdown) add() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handlers++
}

// done is called when a handler is cleaned up. ended is closed when its backend
// has ended; nil if that lives on. The last handler waits for all backends, for
// [shutdownTimeout] since the first began to end at most: those that take longer
// go on by themselves, within their own time limits.
func (s *shutdown) done(ended <-chan struct{}) {
	s.mu.Lock()
	s.handlers--
	if ended != nil {
		if len(s.ending) == 0 {
			s.begun = time.Now()
		}
		s.ending = append(s.ending, ended)
	}
	if s.handlers > 0 {
		s.mu.Unlock()
		return
	}
	ending, begun := s.ending, s.begun
	s.ending = nil
	s.mu.Unlock()
	if len(ending) == 0 {
		return
	}
	timer := time.NewTimer(time.Until(begun.Add(shutdownTimeout)))
	defer timer.Stop()
	for _, ended := range ending {
		select {
		case <-ended:
		case <-timer.C:
			return
		}
	}
}
