package storetest

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/stores"
)

// place is what the instances at one have in common.
type place struct {
	last    uint64
	sure    time.Time // from when on nobody is a member who is not among these; zero: it is forgotten
	members map[string]member
	hearers map[*hearer]struct{}
}

type member struct {
	ends  time.Time
	heard uint64
}

// hearer is somebody who listens.
type hearer struct {
	waiting []stores.Announcement // guarded by the store's mutex
	more    chan struct{}
}

// Forget has all places forgotten, as by a store that was emptied.
func (s *Trial) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.places {
		p.sure, p.members = time.Time{}, make(map[string]member)
	}
}

// placeOf returns the place of that name. The caller holds s.mu.
func (s *Trial) placeOf(name string) *place {
	p := s.places[name]
	if p == nil {
		p = &place{members: make(map[string]member), hearers: make(map[*hearer]struct{})}
		s.places[name] = p
	}
	maps.DeleteFunc(p.members, func(_ string, m member) bool { return !time.Now().Before(m.ends) })
	return p
}

// remember has a place not be forgotten any more. Those who do not know that it was are members
// for a life at most.
func (p *place) remember(life time.Duration) {
	if p.sure.IsZero() {
		p.last, p.sure = uint64(time.Now().UnixMicro()), time.Now().Add(life)
	}
}

// confirmed reports whether all members have confirmed everything up to a number.
func (p *place) confirmed(number uint64) bool {
	for _, m := range p.members {
		if m.heard < number {
			return false
		}
	}
	return !time.Now().Before(p.sure)
}

// publish has all who listen hear of an announcement.
func (p *place) publish(a stores.Announcement) {
	for h := range p.hearers {
		h.waiting = append(h.waiting, a)
		select {
		case h.more <- struct{}{}:
		default:
		}
	}
}

// Forge has all who listen at a place hear what no instance has announced there.
func (s *Trial) Forge(place string, a stores.Announcement) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.placeOf(place).publish(a)
}

// SetDelivery says how often the instance hears an announcement; nil has it hear each once. What
// it waits, the instance waits for that announcement and those after it.
func (s *Shared) SetDelivery(times func(stores.Announcement) int) { s.delivery.Store(&times) }

// Listen implements [stores.Members]. What is announced while the store is away is lost, and ends it.
func (s *Shared) Listen(ctx context.Context, place string, listening func(), hear func(stores.Announcement)) error {
	h := &hearer{more: make(chan struct{}, 1)}
	if err := s.locked(ctx, "listen", place, func() error { s.placeOf(place).hearers[h] = struct{}{}; return nil }); err != nil {
		return err
	}
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.placeOf(place).hearers, h)
	}()
	listening()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-h.more:
		}
		s.mu.Lock()
		waiting := h.waiting
		h.waiting = nil
		s.mu.Unlock()
		for _, a := range waiting {
			if err := s.away(); err != nil {
				return err
			}
			for range s.times(a) {
				hear(a)
			}
		}
	}
}

// times returns how often an announcement is heard.
func (s *Shared) times(a stores.Announcement) int {
	if delivery := s.delivery.Load(); delivery != nil && *delivery != nil {
		return (*delivery)(a)
	}
	return 1
}

// Join implements [stores.Members].
func (s *Shared) Join(ctx context.Context, place, name string, life time.Duration) (is stores.Standing, err error) {
	err = s.locked(ctx, "join", place, func() error {
		p := s.placeOf(place)
		p.remember(life)
		p.members[name] = member{time.Now().Add(life), p.last}
		is = p.standing()
		return nil
	})
	return is, err
}

// standing returns what members are told. They are in no order.
func (p *place) standing() stores.Standing {
	return stores.Standing{Last: p.last, Members: slices.Collect(maps.Keys(p.members))}
}

// Confirm implements [stores.Members].
func (s *Shared) Confirm(ctx context.Context, place, name string, heard uint64, life time.Duration) (is stores.Standing, err error) {
	err = s.locked(ctx, "confirm", place, func() error {
		p := s.placeOf(place)
		m, known := p.members[name]
		if !known {
			return stores.ErrNoMember
		}
		if heard > p.last { // nobody has announced that
			heard = m.heard
		}
		more := heard > m.heard
		p.members[name] = member{time.Now().Add(life), max(m.heard, heard)}
		is = p.standing()
		if more && p.confirmed(heard) {
			p.publish(stores.Announcement{Number: heard, Confirmed: true})
		}
		return nil
	})
	return is, err
}

// Announce implements [stores.Members].
func (s *Shared) Announce(ctx context.Context, place, name string, message []byte, life time.Duration) (number uint64, confirmed bool, err error) {
	err = s.locked(ctx, "announce", place, func() error {
		p := s.placeOf(place)
		p.remember(life)
		p.last++
		if m, is := p.members[name]; is && m.heard == p.last-1 {
			m.heard = p.last
			p.members[name] = m
		}
		number, confirmed = p.last, p.confirmed(p.last)
		p.publish(stores.Announcement{Number: p.last, Member: name, Message: bytes.Clone(message)})
		return nil
	})
	return number, confirmed, err
}

// Leave implements [stores.Members].
func (s *Shared) Leave(ctx context.Context, place, name string) error {
	return s.locked(ctx, "leave", place, func() error {
		delete(s.placeOf(place).members, name)
		return nil
	})
}
