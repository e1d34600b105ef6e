// Package terminal makes texts of others fit for a terminal.
package terminal

import (
	"strings"
	"unicode"
)

// Printable makes one line of a text that a server may have written. Whatever
// could steer a terminal is left out.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsPrint(r):
			return r
		}
		return -1
	}, text)
}

// Shorten cuts a text to at most so many characters.
func Shorten(text string, limit int) string {
	runes := []rune(text)
	if len(runes) <= limit {
		return text
	}
	return string(runes[:limit-1]) + "…"
}
