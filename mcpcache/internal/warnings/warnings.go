// Package warnings keeps warnings about requests that do not get what somebody may have wanted. A
// [Log] writes each warning to Caddy's log once, counts it, and gives it to the status. It knows
// nothing of requests.
package warnings

import (
	"fmt"
	"sync"

	"go.uber.org/zap"
)

const (
	// MaxValues is how many values of one warning are told apart, because clients can make them up.
	MaxValues = 16
	// maxValue is how many bytes of a value a warning has.
	maxValue = 128
)

// Log has the warnings of one handler. Its methods may be called from several goroutines at once.
type Log struct {
	logger *zap.Logger

	mu       sync.Mutex
	warnings []*warning
}

// warning is a warning about one value.
type warning struct {
	text, name, value string
	times             int
}

// New returns an empty log, which writes to l.
func New(l *zap.Logger) *Log { return &Log{logger: l} }

// Warn warns of the value of something, such as a header of that name. It writes the first warning
// of each value to the log. After [MaxValues] values it counts all others as one, and logs none.
func (r *Log) Warn(text, name, value string) {
	value = value[:min(len(value), maxValue)]
	r.mu.Lock()
	defer r.mu.Unlock()
	values := 0
	for _, m := range r.warnings {
		if m.text == text && (m.value == value || values == MaxValues) {
			m.times++
			return
		}
		if m.text == text {
			values++
		}
	}
	if values == MaxValues {
		r.warnings = append(r.warnings, &warning{text, name, "others", 1})
		return
	}
	r.warnings = append(r.warnings, &warning{text, name, value, 1})
	r.logger.Warn(text, zap.String(name, value))
}

// Texts returns the warnings, each with its value and its number.
func (r *Log) Texts() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	texts := make([]string, len(r.warnings))
	for i, m := range r.warnings {
		times := "once"
		if m.times > 1 {
			times = fmt.Sprintf("%d times", m.times)
		}
		texts[i] = fmt.Sprintf("%s (%s: %s, %s)", m.text, m.name, m.value, times)
	}
	return texts
}
