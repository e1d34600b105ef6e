package process

import (
	"runtime"
)

// Launcher starts programs. On Linux they end with the process that has started them, however
// that ends: the kernel sees to it, but by the thread. So a launcher has a thread of its own.
type Launcher struct {
	commands chan func()
	ended    chan struct{}
}

// NewLauncher returns a launcher. It has to be closed.
func NewLauncher() *Launcher {
	l := &Launcher{commands: make(chan func()), ended: make(chan struct{})}
	go l.run()
	return l
}

func (l *Launcher) run() {
	defer close(l.ended)
	// It is unlocked again at the end, so the thread lives on.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for command := range l.commands {
		command()
	}
}

// Start starts a program. The launcher must not have been closed.
func (l *Launcher) Start(c Command) (p *Process, err error) {
	done := make(chan struct{})
	l.commands <- func() {
		defer close(done)
		p, err = c.start()
	}
	<-done
	return p, err
}

// Close ends the launcher, but none of the programs.
func (l *Launcher) Close() {
	close(l.commands)
	<-l.ended
}
