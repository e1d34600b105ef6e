package program

import (
	"context"
	"sync"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/budget"
)

const (
	// roomPatience is how long a process is not read from because there is no memory for its line. It is
	// shorter than a process may leave its input unread: see [process.Process.Write].
	roomPatience = 25 * time.Second
	// stalled is how long a process may write no more of a line until others have their turn.
	stalled = time.Second
)

// lineRoom is the memory of the line that a process is writing. Of several long lines only one grows at a
// time: it has what it needs sooner than if each had some of it. Its methods are for the goroutine that
// reads.
type lineRoom struct {
	program *Program
	running context.Context // until the process ends

	room  *budget.Room // nil: the line is short
	share budget.Share
	left  time.Duration // of roomPatience
	stall *time.Timer

	mu     sync.Mutex
	inTurn bool
}

// fits reports whether there is memory for so many bytes of the line. It waits for that.
func (l *lineRoom) fits(size int) bool {
	if l.room == nil {
		l.room, l.left = l.program.memory.Load(), roomPatience
		l.share = l.room.Share()
	} else {
		l.stall.Stop()
	}
	if int64(size) > l.room.Largest() {
		return false
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(l.running, l.left)
	defer cancel()
	fits := l.takeTurn(ctx) && l.share.GrowSoon(ctx, int64(size)-l.share.Size())
	l.left -= time.Since(began)
	if l.stall == nil {
		l.stall = time.AfterFunc(stalled, l.endTurn)
	} else {
		l.stall.Reset(stalled)
	}
	return fits
}

// takeTurn waits until no other line grows.
func (l *lineRoom) takeTurn(ctx context.Context) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.inTurn {
		l.inTurn = l.room.Enter(ctx, roomPatience)
	}
	return l.inTurn
}

func (l *lineRoom) endTurn() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.inTurn {
		l.inTurn = false
		l.room.Leave()
	}
}

// end is called when the line has been dealt with: whoever keeps it has taken the share.
func (l *lineRoom) end() {
	if l.room == nil {
		return
	}
	if l.stall != nil {
		l.stall.Stop()
	}
	l.share.Release()
	l.endTurn()
	l.room = nil
}
