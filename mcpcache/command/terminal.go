package command

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/term"
)

// forTerminal returns a writer of JSON texts to out. If out is a terminal,
// nothing that the upstream wrote can steer it: control characters, those that
// change the direction of text, and others that cannot be seen are written as
// the escapes that JSON has for them, which mean the same. Programs are given
// the bytes as they are.
func forTerminal(out io.Writer) io.Writer {
	if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return jsonEscaper{out}
	}
	return out
}

// jsonEscaper writes JSON texts with nothing but what is printed. No character
// may be spread over two writes.
type jsonEscaper struct{ below io.Writer }

// Write implements [io.Writer].
func (w jsonEscaper) Write(p []byte) (int, error) {
	if _, err := w.below.Write(escapeJSON(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// escapeJSON returns a JSON text of the same meaning that has only characters
// which are printed, and line breaks.
func escapeJSON(text []byte) []byte {
	var out bytes.Buffer
	out.Grow(len(text))
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		switch {
		case r == '\n', unicode.IsPrint(r) && (r != utf8.RuneError || size > 1):
			out.Write(text[:size])
		case r == '\t', r == '\r':
			out.WriteByte(' ') // between values: in strings they are escaped
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&out, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
		text = text[size:]
	}
	return out.Bytes()
}
