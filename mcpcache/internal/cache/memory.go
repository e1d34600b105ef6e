package cache

import "github.com/caddy-mcp/mcp-cache/mcpcache/internal/budget"

// The memory is divided into these eighths. They come to half of it, because the
// garbage collector lets the heap grow to twice of what is kept.
const (
	eighths = 8

	boundedShare    = 2 // what is kept as it is
	compressedShare = 1 // what is kept compressed
	workShare       = 1 // what is in progress
)

// Work returns the budget for work in progress: answers that are being recorded and
// parsed.
func (c *Cache) Work() *budget.Budget { return c.work }

// SetMemory changes how many bytes the bounded store, compressed bytes and work in
// progress may take together, with the garbage that they leave.
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
	c.readyLimit.Store(boundedShare * eighth)
}
