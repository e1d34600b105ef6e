package cache

import "time"

// settleTime is how long a snapshot that changes all the time has to stay as it
// is until it is compressed: what is replaced sooner is not worth the work,
// which may take as long as a hundred hits.
const settleTime = 2 * time.Second

// restless reports whether e takes the place of other bytes that were new
// themselves. The caller holds Cache.pinning.
func (p *pin) restless(old, e *Entry, now time.Time) bool {
	if old == nil || old.Body.Digest == e.Body.Digest {
		return false
	}
	last := p.changed
	p.changed = now
	return now.Sub(last) < settleTime
}

// settle has what is pinned compressed once it has stayed for a while. The
// caller holds Cache.pinning.
func (c *Cache) settle(p *pin) {
	if p.settling != nil {
		p.settling.Reset(settleTime)
		return
	}
	p.settling = time.AfterFunc(settleTime, func() {
		c.pinning.Lock()
		defer c.pinning.Unlock()
		if e, forms := p.entry.Load(), p.forms.Load(); e != nil && forms != nil {
			c.forms.want(e, forms, Plain, time.Now().Unix())
		}
	})
}

// stopSettling is called at the end.
func (c *Cache) stopSettling() {
	c.pinning.Lock()
	defer c.pinning.Unlock()
	for r := range c.pinned {
		for k := range c.pinned[r] {
			if timer := c.pinned[r][k].settling; timer != nil {
				timer.Stop()
			}
		}
	}
}
