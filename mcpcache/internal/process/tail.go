package process

import (
	"bytes"
	"strings"
	"sync"
	"time"
)

const (
	// maxTail is how many bytes of standard error are kept.
	maxTail = 64 << 10
	// maxLogged is how many bytes of a line are logged.
	maxLogged = 8 << 10
	// burst lines are logged in each interval.
	burst    = 20
	interval = 10 * time.Second
)

// tail keeps the end of what a program writes to standard error, and logs its lines: not those
// that repeat the one before, and not too many.
type tail struct {
	log func(line string, skipped int)

	mu   sync.Mutex
	kept []byte

	// Of the line that is being read, and of those before. Only Write has them.
	line    []byte
	last    string
	skipped int
	logged  int
	since   time.Time
}

func newTail(log func(line string, skipped int)) *tail { return &tail{log: log} }

// Write implements [io.Writer]. It never fails.
func (t *tail) Write(p []byte) (int, error) {
	t.keep(p)
	for rest := p; len(rest) > 0; {
		line, after, ends := bytes.Cut(rest, []byte("\n"))
		t.line = append(t.line, line[:min(len(line), maxLogged-len(t.line))]...)
		if ends {
			t.say(strings.ToValidUTF8(strings.TrimRight(string(t.line), "\r"), "\uFFFD"))
			t.line = t.line[:0]
		}
		rest = after
	}
	return len(p), nil
}

func (t *tail) keep(p []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, p...)
	if over := len(t.kept) - maxTail; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
}

// say logs a line, or counts it as skipped.
func (t *tail) say(line string) {
	now := time.Now()
	if now.Sub(t.since) >= interval {
		t.since, t.logged = now, 0
	}
	if line == "" || line == t.last || t.logged == burst {
		t.skipped++
		return
	}
	if t.log != nil {
		t.log(line, t.skipped)
	}
	t.last, t.skipped = line, 0
	t.logged++
}

// String returns what is kept.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.ToValidUTF8(string(t.kept), "\uFFFD")
}
