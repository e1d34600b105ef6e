package cache

import (
	"bytes"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// sized returns an entry whose body has that many bytes.
func (c *Cache) sized(q Question, size int) *Entry {
	body := &message.Body{Bytes: bytes.Repeat([]byte("x"), size)}
	body.Digest[0], body.Digest[1] = byte(size), byte(size>>8)
	return &Entry{
		Kind: q.Kind, Revision: q.Revision, Partition: q.Partition, Body: body,
		Fetched: time.Now(), Lifetime: time.Hour, Mark: c.Mark(q.Kind),
	}
}

func TestBodiesBeingReadAreBounded(t *testing.T) {
	const memory = 16 * largeBody
	const room = memory / eighths * boundedShare // for two times a large body and its like
	c := newCache(t, memory)
	q := toolsOf(Anonymous)
	first, second := c.sized(q, room/2), c.sized(q, room/2+1)
	small, exact := c.sized(q, largeBody), c.sized(q, room/2)
	if !c.Hold(first) || c.Hold(second) {
		t.Fatal("more is held than there is room for, or less")
	}
	if !c.Hold(exact) {
		t.Error("what fits exactly is refused")
	}
	if !c.Hold(first) || !c.Hold(small) {
		t.Error("a body that is read already, or a small one, is refused")
	}
	c.Release(small)
	c.Release(exact)
	c.Release(first)
	if c.Hold(second) {
		t.Error("a body that is still read does not count any more")
	}
	c.Release(first)
	if !c.Hold(second) {
		t.Error("a body counts that nobody reads")
	}
	c.Release(second)
}

// The feed's snapshot is there anyway, but not any more when it is replaced.
func TestPinnedBodyBeingRead(t *testing.T) {
	const memory = 16 * largeBody
	c := newCache(t, memory)
	q := toolsOf(Public)
	other := q
	other.Kind = revision.Prompts
	pinned := c.sized(q, memory)
	c.Pin(pinned)
	if !c.Hold(pinned) {
		t.Fatal("the snapshot is refused")
	}
	prompts := c.sized(other, largeBody+1)
	if !c.Hold(prompts) {
		t.Error("the snapshot takes room away")
	}
	c.Release(prompts)
	newer := c.sized(q, memory/2)
	newer.Fetched = newer.Fetched.Add(time.Second)
	c.Pin(newer)
	if c.Hold(prompts) || c.Hold(newer) {
		t.Error("a snapshot that was replaced, and is still read, does not count")
	}
	c.Release(pinned)
	if !c.Hold(newer) {
		t.Error("a snapshot that nobody reads any more counts")
	}
	c.Release(newer)
	if n := len(c.reading.bodies); n > 0 {
		t.Errorf("%d bodies are left", n)
	}
}

// A body that is larger than all the room there is, is written while there is no other.
func TestBodyLargerThanAllRoom(t *testing.T) {
	const memory = 16 * largeBody
	c := newCache(t, memory)
	q := toolsOf(Anonymous)
	large, other := c.sized(q, memory), c.sized(q, largeBody+1)
	if !c.Hold(large) || c.Hold(other) {
		t.Fatal("it is not written alone")
	}
	pinned := c.sized(toolsOf(Public), memory/2)
	c.Pin(pinned)
	if !c.Hold(pinned) {
		t.Error("it keeps callers from the feed's list")
	}
	c.Release(pinned)
	c.Release(large)
	if !c.Hold(other) || c.Hold(large) {
		t.Error("it is written beside another")
	}
	c.Release(other)
}

// Whoever finds no room waits until others have been read, for as long as its patience.
func TestWaitingForRoom(t *testing.T) {
	const memory = 16 * largeBody
	const room = memory / eighths * boundedShare
	synctest.Test(t, func(t *testing.T) {
		c := newCache(t, memory)
		q := toolsOf(Anonymous)
		first := c.sized(q, room)
		second := [2]*Entry{c.sized(q, room-1), c.sized(q, room-2)} // as it is before and after
		if !c.Hold(first) || c.Hold(second[0]) {
			t.Fatal("more is held than there is room for, or less")
		}
		var waiting sync.WaitGroup
		soon := func(patience time.Duration, next func() *Entry) (held *bool) {
			held = new(bool)
			waiting.Go(func() { *held = c.HoldSoon(t.Context(), patience, c.Counts(second[0]), next) })
			synctest.Wait()
			return held
		}
		never := func() *Entry {
			t.Error("there is room before the end of its patience")
			return nil
		}
		impatient := soon(time.Second, never) // and who is behind it in the line
		soon(time.Second, never)
		time.Sleep(time.Second)
		synctest.Wait()
		patient := soon(time.Minute, func() *Entry { return second[1] })
		gone := soon(time.Minute, func() *Entry { return nil })
		later := soon(time.Minute, func() *Entry { return first })
		if *impatient || *patient || *later {
			t.Error("there is room already")
		}
		c.Release(first)
		synctest.Wait()
		if !*patient || *later {
			t.Errorf("there is room for the first in the line: %v, for the second: %v", *patient, *later)
		}
		c.Release(second[1])
		waiting.Wait()
		if *gone || !*later {
			t.Errorf("who has gone holds something: %v, who has waited: %v", *gone, *later)
		}
		c.Release(first)
		if n := len(c.reading.bodies); n > 0 {
			t.Errorf("%d bodies are left", n)
		}
		c.Close()
	})
}
