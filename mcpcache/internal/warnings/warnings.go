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
	// MaxValues is how many values of one remark are told apart, because clients can make them up.
	MaxValues = 16
	// maxValue is how many bytes of a value are told.
	maxValue = 128
)

// Log are those of one handler. All methods may be called from several goroutines at once.
type Log struct {
	logger *zap.Logger

	mu       sync.Mutex
	warnings []*warning
}

// warning is a remark that has been made, about one value.
type warning struct {
	text, name, value string
	times             int
}

// New returns one in which there are none.
func New(l *zap.Logger) *Log { return &Log{logger: l} }

// Warn makes a remark about the value of something of that name, such as a header. The first time
// it is logged. Of more than [MaxValues] values the others are one, which is not logged.
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

// Texts returns the remarks that were made, each with its value and how often it was made.
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
