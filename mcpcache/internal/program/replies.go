package program

import "sync"

// maxReplies is how many bytes of answers wait for a process that does not read them.
const maxReplies = 1 << 20

// replies are the answers to what a process asks, on the way to its input. A process may ask many things
// before it reads the answer to the first.
type replies struct {
	waiting chan struct{} // has a token while there are some

	mu    sync.Mutex
	lines [][]byte
	size  int
}

func newReplies() replies { return replies{waiting: make(chan struct{}, 1)} }

// add adds an answer. It reports false if there is no room for it.
func (r *replies) add(line []byte) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.size+len(line) > maxReplies {
		return false
	}
	r.lines, r.size = append(r.lines, line), r.size+len(line)
	r.signal()
	return true
}

// next takes the answer that has waited longest, for who has taken the token.
func (r *replies) next() (line []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	line, r.lines[0] = r.lines[0], nil
	r.lines, r.size = r.lines[1:], r.size-len(line)
	r.signal()
	return line
}

// signal gives the token if there is an answer. The lock is held.
func (r *replies) signal() {
	if len(r.lines) == 0 {
		return
	}
	select {
	case r.waiting <- struct{}{}:
	default:
	}
}
