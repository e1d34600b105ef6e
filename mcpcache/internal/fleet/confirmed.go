package fleet

import "github.com/caddy-mcp/mcp-cache/mcpcache/stores"

// confirmed is what all instances have confirmed, in numbers of one store. The store's own answers are
// believed. On the way of announcements, anybody may speak who can write to the store, or who has another
// counter.
type confirmed struct {
	last   uint64 // the greatest number in answers of the store
	number uint64 // all have confirmed everything up to it
	// unproven is the number in the last claim, if it is beyond last: the announcement may be quicker
	// than the answer. 0: there is none.
	unproven uint64
	awaited  uint64        // what somebody waits for to be confirmed, 0 if nobody does
	done     chan struct{} // closed then
}

// restart begins anew with a store that may count otherwise. Whoever waits goes on waiting.
func (c *confirmed) restart() { c.last, c.number, c.unproven = 0, 0, 0 }

// receive records the claim that all instances have confirmed everything up to a number.
func (c *confirmed) receive(number uint64) {
	c.unproven = number
	c.conclude()
}

// prove notes that the store has given out a number.
func (c *confirmed) prove(number uint64) {
	c.last = max(c.last, number)
	c.conclude()
}

// conclude believes what is proven, and ends the wait for that.
func (c *confirmed) conclude() {
	if c.unproven <= c.last {
		c.number, c.unproven = max(c.number, c.unproven), 0
	}
	if c.awaited != 0 && c.number >= c.awaited {
		c.awaited = 0
		close(c.done)
	}
}

// beginWait forgets claims about numbers that the store has not given out. None of them can belong to an
// announcement from now on.
func (m *Member) beginWait() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.confirmed.unproven = 0
}

// confirmation returns what is closed when all have confirmed everything up to a number, which the store
// has just given out.
func (m *Member) confirmation(number uint64) <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := &m.confirmed
	c.awaited, c.done = number, make(chan struct{})
	done := c.done
	c.prove(number)
	return done
}

// confirmedTo notes what is said in a store to be confirmed.
func (m *Member) confirmedTo(store stores.Fleet, number uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if store == m.store {
		m.confirmed.receive(number)
	}
}

// proves notes that the last number of a store is that.
func (m *Member) proves(store stores.Fleet, last uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if store == m.store {
		m.confirmed.prove(last)
	}
}
