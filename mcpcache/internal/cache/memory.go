package cache

import "github.com/caddy-mcp/mcp-cache/mcpcache/internal/budget"

// The memory is divided by these eighths. They are half of it: the process needs
// twice as much for what it keeps, because garbage is collected when there is as
// much of it again.
const (
	eighths = 8

	boundedShare    = 2 // what is kept as it is
	compressedShare = 1 // what is kept compressed
	workShare       = 1 // what is in progress
)

// Work returns what may be taken of the memory for what is in progress: answers
// that are being recorded and parsed.
func (c *Cache) Work() *budget.Budget { return c.work }

// SetMemory changes how many bytes all together may take, with the garbage that
// they leave: what the bounded store keeps, compressed bytes, and what is in progress.
func (c *Cache) SetMemory(memory int64) {
	c.sharing.Lock()
	defer c.sharing.Unlock()
	c.memory = memory
	c.share()
}

// SetPrecompress turns on or off that a part of the memory is for compressed
// bytes: those of the pinned snapshots, and those of other entries that are
// asked for. It is off in a new cache.
func (c *Cache) SetPrecompress(on bool) {
	c.sharing.Lock()
	defer c.sharing.Unlock()
	c.precompress = on
	c.share()
}

// share divides the memory. The caller holds c.sharing.
func (c *Cache) share() {
	eighth := c.memory / eighths
	if c.precompress {
		c.compressed.SetLimit(compressedShare * eighth)
		c.bounded.setMemory(boundedShare * eighth)
	} else {
		c.compressed.SetLimit(0)
		c.bounded.setMemory((boundedShare + compressedShare) * eighth)
	}
	c.work.SetLimit(workShare * eighth)
	c.reading.setLimit(boundedShare * eighth)
}
