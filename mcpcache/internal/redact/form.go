package redact

import (
	"bytes"
	"html"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	// mostNested is how often a text can have been escaped over and over.
	mostNested = 3
	// longestRun is the number of backslashes that this makes.
	longestRun = 1<<mostNested - 1
	// longestEntity is the length of the longest character reference of HTML
	// that counts: &#x10FFFF;
	longestEntity = 10
)

// pattern is a text in any form: each of its characters may be as it is, or
// escaped as URLs, JSON strings and HTML do. Letters of ASCII may be in either
// case: hosts and names of headers change it.
type pattern struct {
	runes []rune
	raw   string // what stays as it is, in a text that is not UTF-8
	// broken says that there may be a line break behind each character, as in base64
	// (RFC 2045 section 6.8, RFC 7468 section 2).
	broken bool
}

func newPattern(text string, broken bool) *pattern {
	if !utf8.ValidString(text) {
		return &pattern{raw: text}
	}
	return &pattern{runes: []rune(text), broken: broken}
}

// begins tells whether the pattern can begin with a byte.
func (p *pattern) begins(b byte) bool {
	switch {
	case p.raw != "":
		return b == p.raw[0]
	case b != '+' && isEscape(b), b == '+' && p.runes[0] == ' ':
		return true
	}
	return same(rune(b), rune(string(p.runes[0])[0]))
}

// same tells whether two characters differ in no more than their case.
func same(a, b rune) bool { return a == b || lower(a) == lower(b) }

func lower(r rune) rune {
	if r >= 'A' && r <= 'Z' {
		r += 'a' - 'A'
	}
	return r
}

// match returns the length of the pattern at the beginning of the text, of the
// longest form in which it is there, 0 if it is not. more says that the text
// ends before that is certain.
func (p *pattern) match(text []byte) (length int, more bool) {
	if p.raw != "" {
		if bytes.HasPrefix(text, []byte(p.raw)) {
			return len(p.raw), false
		}
		return 0, strings.HasPrefix(p.raw, string(text))
	}
	if p.differs(text) {
		return 0, false
	}
	var sets [2]ends
	now, next := &sets[0], &sets[1]
	now.add(0)
	for i, r := range p.runes {
		if p.broken && i > 0 {
			now.lineBreaks(text)
		}
		next.count = 0
		for _, at := range now.at[:now.count] {
			next.character(text, at, r)
		}
		more = more || next.short
		if next.count == 0 {
			return 0, more
		}
		now, next = next, now
	}
	return slices.Max(now.at[:now.count]), more
}

// differs finds out fast, for most texts, that the pattern is not there.
func (p *pattern) differs(text []byte) bool {
	if isEscape(text[0]) || len(text) < 2 || len(p.runes) < 2 || p.runes[0] >= utf8.RuneSelf || p.runes[1] >= utf8.RuneSelf ||
		p.broken && (text[1] == '\r' || text[1] == '\n') {
		return false
	}
	return !isEscape(text[1]) && !same(rune(text[1]), p.runes[1])
}

// isEscape tells whether a byte may begin an escaped character.
func isEscape(b byte) bool { return b == '%' || b == '\\' || b == '&' || b == '+' }

// ends are where a part of a pattern can end: the same text may be a character
// as it is, and the beginning of an escaped one.
type ends struct {
	at    [2 * longestRun]int
	count int
	short bool // the text ends within something that may be one
}

func (e *ends) add(at int) {
	if e.count < len(e.at) && !slices.Contains(e.at[:e.count], at) {
		e.at[e.count] = at
		e.count++
	}
}

// found adds an end if there is one.
func (e *ends) found(at, length int, short bool) {
	e.short = e.short || short
	if length > 0 {
		e.add(at + length)
	}
}

// character adds where a character ends that begins at a place in the text.
func (e *ends) character(text []byte, at int, r rune) {
	rest := text[at:]
	if len(rest) == 0 {
		e.short = true
		return
	}
	n, short := literal(rest, r)
	e.found(at, n, short)
	switch {
	case rest[0] == '%':
		e.percent(rest, at, r)
	case rest[0] == '\\':
		e.backslash(rest, at, r)
	case rest[0] == '&':
		n, short := entity(rest, r)
		e.found(at, n, short)
	case rest[0] == '+' && r == ' ':
		e.add(at + 1)
	}
}

// mostBlank is how many characters of indentation there may be behind a line break.
const mostBlank = 16

// lineBreaks adds where a line break ends that begins at one of the places so far, with the
// indentation of the next line. All may be escaped. A blank line is none: it ends an event, which
// has to be handed out.
func (e *ends) lineBreaks(text []byte) {
	for _, at := range slices.Clone(e.at[:e.count]) {
		end := e.blank(text, e.blank(text, at, "\r"), "\n")
		if end == at {
			continue
		}
		for range mostBlank {
			next := e.blank(text, end, " \t")
			if next == end {
				break
			}
			end = next
		}
		e.add(end)
	}
}

// blank returns where one of those characters ends that begins at a place, or the place if
// there is none.
func (e *ends) blank(text []byte, at int, characters string) int {
	if at == len(text) {
		return at
	}
	var one ends
	for _, c := range characters {
		one.character(text, at, c)
		one.shortEscape(text, at, c)
	}
	e.short = e.short || one.short
	return slices.Max(append(one.at[:one.count:one.count], at))
}

// shortEscape finds a blank that strings escape by a letter, also if that has been done over
// and over.
func (e *ends) shortEscape(text []byte, at int, c rune) {
	run := 0
	for at+run < len(text) && run < longestRun && text[at+run] == '\\' {
		run++
	}
	letter := map[rune]byte{'\n': 'n', '\r': 'r', '\t': 't'}[c]
	if run > 0 && letter != 0 && at+run < len(text) && text[at+run] == letter {
		e.add(at + run + 1)
	}
}

// literal finds a character as it is.
func literal(text []byte, r rune) (length int, short bool) {
	if r < utf8.RuneSelf {
		if same(rune(text[0]), r) {
			return 1, false
		}
		return 0, false
	}
	var buffer [utf8.UTFMax]byte
	plain := buffer[:utf8.EncodeRune(buffer[:], r)]
	if bytes.HasPrefix(text, plain) {
		return len(plain), false
	}
	return 0, bytes.HasPrefix(plain, text)
}

// percent finds a character as URLs and forms escape it (RFC 3986 section
// 2.1), also if the percent sign has itself been escaped.
func (e *ends) percent(text []byte, at int, r rune) {
	var buffer [utf8.UTFMax]byte
	for nested := range 1 + mostNested {
		length, short := 0, false
		for _, want := range buffer[:utf8.EncodeRune(buffer[:], r)] {
			var n int
			if n, short = percentByte(text[length:], want, nested); n == 0 {
				length = 0
				break
			}
			length += n
		}
		e.found(at, length, short)
	}
}

func percentByte(text []byte, want byte, nested int) (length int, short bool) {
	if len(text) == 0 {
		return 0, true
	}
	if text[0] != '%' {
		return 0, false
	}
	for length = 1; nested > 0; nested-- {
		if value, ok, short := hexadecimal(text[length:], 2); !ok || value != '%' {
			return 0, short
		}
		length += 2
	}
	value, ok, short := hexadecimal(text[length:], 2)
	if !ok || !same(value, rune(want)) && (want != ' ' || value != '+') {
		return 0, short
	}
	return length + 2, false
}

// backslash finds a character as JSON and other strings escape it, also if that
// has been done over and over.
func (e *ends) backslash(text []byte, at int, r rune) {
	run := 0
	for run < len(text) && run < longestRun && text[run] == '\\' {
		run++
		if r == '\\' {
			e.add(at + run) // more of them may belong to what follows
		}
	}
	rest := text[run:]
	if len(rest) == 0 {
		e.short = e.short || run < longestRun || r != '\\'
		return
	}
	if r != '\\' {
		n, short := literal(rest, r)
		e.found(at+run, n, short)
	}
	if digits := digitsAfter(rest[0]); digits > 0 {
		n, short := escaped(rest[1:], r, digits)
		if n > 0 {
			n++
		}
		e.found(at+run, n, short)
	}
}

// digitsAfter is how many hexadecimal digits follow a letter behind a backslash.
func digitsAfter(letter byte) int {
	switch letter {
	case 'x':
		return 2
	case 'u':
		return 4
	case 'U':
		return 8
	}
	return 0
}

// escaped finds the hexadecimal digits of a character, or of the two
// surrogates that stand for it.
func escaped(text []byte, r rune, digits int) (length int, short bool) {
	value, ok, short := hexadecimal(text, digits)
	high, low := utf16.EncodeRune(r)
	switch {
	case !ok:
		return 0, short
	case same(value, r):
		return digits, false
	case value != high || digits != 4:
		return 0, false
	}
	rest := text[digits:]
	run := len(rest) - len(bytes.TrimLeft(rest, `\`))
	if run == len(rest) {
		return 0, run <= longestRun
	}
	value, ok, short = hexadecimal(rest[run+1:], digits)
	if run == 0 || rest[run] != 'u' || !ok || value != low {
		return 0, short && rest[run] == 'u'
	}
	return 2*digits + run + 1, false
}

// hexadecimal reads so many digits.
func hexadecimal(text []byte, digits int) (value rune, ok, short bool) {
	for i := range digits {
		if i == len(text) {
			return 0, false, true
		}
		digit := strings.IndexByte("0123456789abcdef", text[i]|0x20)
		if digit < 0 || text[i] < '0' || value > utf8.MaxRune {
			return 0, false, false
		}
		value = value<<4 | rune(digit)
	}
	return value, true, false
}

// entity finds a character as HTML escapes it.
func entity(text []byte, r rune) (length int, short bool) {
	text = text[:min(len(text), longestEntity)]
	end := bytes.IndexByte(text, ';')
	if end < 0 {
		return 0, len(text) < longestEntity
	}
	if found := []rune(html.UnescapeString(string(text[:end+1]))); len(found) == 1 && same(found[0], r) {
		return end + 1, false
	}
	return 0, false
}
