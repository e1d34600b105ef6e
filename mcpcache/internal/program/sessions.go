package program

import (
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"time"
)

const (
	// maxSessions is how many sessions are known; sessionAge how long without a request.
	maxSessions = 4096
	sessionAge  = 24 * time.Hour
)

// newSession returns a session that is known from now on. If there are too many, or they keep too much, that
// which was not used for the longest time is forgotten.
func (p *Program) newSession(initialize []byte, upkeep bool) (*clientSession, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return nil, errEnded
	}
	if !p.makeRoom(1, int64(len(initialize))) {
		return nil, &unavailable{fmt.Sprintf("program %s has no room for another session: %d are in use", p.called(), len(p.sessions)), firstRetry}
	}
	p.kept.Add(int64(len(initialize)))
	s := &clientSession{
		id: rand.Text(), program: p, initialize: initialize, upkeep: upkeep, kept: int64(len(initialize)), used: time.Now(),
		asked: make(map[uint64]asked), subscribed: make(map[string]*subscription), waiting: make(map[*call]struct{}),
	}
	if s.slot = p.shared; s.slot == nil {
		s.slot = &processSlot{program: p, owner: s}
	}
	p.sessions[s.id] = s
	return s, nil
}

// mostKept returns how many bytes sessions may keep for their next processes.
func (p *Program) mostKept() int64 { return p.memory.Load().Limit() / 8 }

// trim forgets sessions that were not used for the longest time if they keep too much.
func (p *Program) trim() {
	if p.kept.Load() > p.mostKept() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.makeRoom(0, 0)
	}
}

// makeRoom forgets sessions until there may be so many more, and they may keep so many bytes more. It reports
// whether that is so: those with a process are not forgotten. The lock is held.
func (p *Program) makeRoom(sessions int, bytes int64) bool {
	for {
		var oldest *clientSession
		var since time.Time
		for id, s := range p.sessions {
			used, asleep := s.lastUse()
			switch {
			case !asleep:
			case time.Since(used) > sessionAge:
				delete(p.sessions, id)
				s.close()
			case oldest == nil || used.Before(since):
				oldest, since = s, used
			}
		}
		if len(p.sessions)+sessions <= maxSessions && p.kept.Load()+bytes <= p.mostKept() {
			return true
		}
		if oldest == nil {
			return false
		}
		delete(p.sessions, oldest.id)
		oldest.close()
	}
}

// session returns the session of that id, nil if there is none.
func (p *Program) session(id string) *clientSession {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sessions[id]
}

// known returns the sessions there are.
func (p *Program) known() []*clientSession {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Values(p.sessions))
}

// forget ends a session.
func (p *Program) forget(s *clientSession) {
	p.mu.Lock()
	delete(p.sessions, s.id)
	p.mu.Unlock()
	s.close()
	if all, ok := s.slot.owner.(*shared); ok {
		go all.left(s)
	}
}
