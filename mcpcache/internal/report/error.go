package report

import (
	"fmt"
)

// Reason is what kind of trouble an [Error] is.
type Reason int

const (
	// NotFound: there is no such handler, kind, snapshot or item.
	NotFound Reason = iota
	// Ambiguous: several handlers have that name.
	Ambiguous
	// Invalid: what was asked for cannot be understood.
	Invalid
	// Unavailable: it cannot be done now.
	Unavailable
)

// Error is why a question of an operator has no answer. Its text is meant for
// the operator.
type Error struct {
	Reason Reason
	text   string
}

func (e *Error) Error() string { return e.text }

// trouble returns an [Error] with that text.
func trouble(reason Reason, format string, args ...any) error {
	return &Error{Reason: reason, text: fmt.Sprintf(format, args...)}
}
