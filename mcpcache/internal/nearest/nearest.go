// Package nearest finds the name that somebody may have meant who wrote another.
package nearest

import (
	"strings"
	"unicode/utf8"
)

const (
	// maxNear is how many characters a name may have to be compared.
	maxNear = 128
	// maxSlips is how many slips of the pen a name may be away.
	maxSlips = 2
	// leastPart is how many characters a part of a name must have: shorter ones
	// are in it by chance.
	leastPart = 3
)

// Question asks whether the nearest name was meant, in brackets behind a space,
// to be put behind what was written: " (did you mean ttl?)". It is "" if no name
// is near.
func Question(word string, names []string) string {
	near := Name(word, names)
	if near == "" {
		return ""
	}
	return " (did you mean " + near + "?)"
}

// Name returns the name that somebody may have meant: the one that is the
// fewest slips away, or else the only one that word is a part of. It is "" if
// there is none.
func Name(word string, names []string) string {
	length := utf8.RuneCountInString(word)
	if word == "" || length > maxNear {
		return ""
	}
	best, least, part, parts := "", min(maxSlips, length/2)+1, "", 0
	for _, name := range names {
		if slips := slipsBetween(word, name, least); slips < least {
			best, least = name, slips
		}
		if length >= leastPart && strings.Contains(strings.ToLower(name), strings.ToLower(word)) {
			part = name
			parts++
		}
	}
	if best == "" && parts == 1 {
		return part
	}
	return best
}

// slipsBetween returns how many characters have to be added, removed or replaced
// to make b of a, whatever their case; limit if it is no less, or b is too long.
func slipsBetween(a, b string, limit int) int {
	if len(b) > utf8.UTFMax*maxNear {
		return limit
	}
	x, y := []rune(strings.ToLower(a)), []rune(strings.ToLower(b))
	if max(len(x)-len(y), len(y)-len(x)) >= limit {
		return limit
	}
	row := make([]int, len(y)+1) // slips between x[:i] and y[:j]
	for j := range row {
		row[j] = j
	}
	for i, c := range x {
		diagonal := row[0]
		row[0] = i + 1
		for j, d := range y {
			slips := diagonal
			if c != d {
				slips = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], slips
		}
	}
	return min(row[len(y)], limit)
}
