package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"net/url"
	"os"
	"strings"
	"testing"
	"testing/iotest"
)

// secrets have what each escape is about.
var secrets = []string{
	"planted-token-0b7d", "a/b+c=d.e~f_0123456789", `quote" back\slash`, "<&'>-0123456789",
	"100%-certain-secret", "blank in it", "é-ü-漢字-𝄞-secret", "eyJhbGciOiJFUzI1NiJ9.e30.MEUCIQD-_abc",
}

// forms are what becomes of a secret on its way back.
var forms = map[string]func(string) string{
	"raw":                    func(s string) string { return s },
	"upper case":             asciiUpper,
	"query":                  url.QueryEscape,
	"path":                   url.PathEscape,
	"every byte":             everyByte("%%%02X"),
	"every byte, lower case": everyByte("%%%02x"),
	"query twice":            func(s string) string { return url.QueryEscape(url.QueryEscape(s)) },
	"JSON":                   inJSON,
	"JSON in JSON":           func(s string) string { return inJSON(inJSON(s)) },
	"JSON of other tongues":  func(s string) string { return strings.ReplaceAll(inJSON(s), "/", `\/`) },
	"every character in JSON": func(s string) string {
		var text strings.Builder
		for _, unit := range utf16Of(s) {
			fmt.Fprintf(&text, `\u%04x`, unit)
		}
		return text.String()
	},
	"query in JSON":                     func(s string) string { return inJSON(url.QueryEscape(s)) },
	"quoted by Go":                      func(s string) string { q := fmt.Sprintf("%+q", s); return q[1 : len(q)-1] },
	"HTML":                              html.EscapeString,
	"HTML, numbers":                     func(s string) string { return strings.ReplaceAll(html.EscapeString(s), "-", "&#x2d;") },
	"base64":                            in64(base64.StdEncoding, ""),
	"base64, one on":                    in64(base64.StdEncoding, "u"),
	"base64, two on":                    in64(base64.RawStdEncoding, "u:"),
	"base64 for URLs":                   in64(base64.RawURLEncoding, "user:"),
	"base64 in a query":                 func(s string) string { return url.QueryEscape(in64(base64.StdEncoding, "")(s)) },
	"base64 in lines":                   func(s string) string { return inLines(in64(base64.StdEncoding, "")(s), 16, "\n") },
	"base64 in lines of CR LF, in JSON": func(s string) string { return inJSON(inLines(in64(base64.StdEncoding, "")(s), 13, "\r\n")) },
	"base64 in lines, in JSON in JSON":  func(s string) string { return inJSON(inJSON(inLines(in64(base64.RawURLEncoding, "")(s), 1, "\r\n"))) },
	"base64 in lines that are indented": func(s string) string { return inLines(in64(base64.StdEncoding, "")(s), 16, "\n\t   ") },
	"base64 in lines that are indented, in JSON": func(s string) string { return inJSON(inLines(in64(base64.StdEncoding, "")(s), 11, "\r\n\t  ")) },
	"base64 in lines, in a query":                func(s string) string { return url.QueryEscape(inLines(in64(base64.StdEncoding, "u")(s), 7, "\r\n")) },
	"base64 in JSON":                             func(s string) string { return strings.ReplaceAll(in64(base64.StdEncoding, "")(s), "/", `\/`) },
}

// inLines breaks a text into lines of that length.
func inLines(text string, length int, end string) string {
	var lines []string
	for ; len(text) > length; text = text[length:] {
		lines = append(lines, text[:length])
	}
	return strings.Join(append(lines, text), end)
}

func everyByte(format string) func(string) string {
	return func(s string) string {
		var text strings.Builder
		for _, b := range []byte(s) {
			fmt.Fprintf(&text, format, b)
		}
		return text.String()
	}
}

func inJSON(s string) string {
	text, _ := json.Marshal(s) // a string can be encoded
	return string(text[1 : len(text)-1])
}

// asciiUpper changes no letter that has no other case in ASCII.
func asciiUpper(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' {
			r -= 'a' - 'A'
		}
		return r
	}, s)
}

func in64(encoding *base64.Encoding, before string) func(string) string {
	return func(s string) string { return encoding.EncodeToString([]byte(before + s)) }
}

func utf16Of(s string) (units []uint16) {
	for _, r := range s {
		if r > 0xffff {
			r -= 0x10000
			units = append(units, 0xd800+uint16(r>>10), 0xdc00+uint16(r&0x3ff))
			continue
		}
		units = append(units, uint16(r))
	}
	return units
}

// rest is what stays of a form: base64 has up to a character at each end that
// depends on the neighbours, too, and perhaps a line break before that.
const rest = 15

func TestText(t *testing.T) {
	for _, secret := range secrets {
		for name, form := range forms {
			shown := form(secret)
			for _, around := range [][2]string{{"", ""}, {"Bearer ", " is no good"}, {`{"a":"`, `"}`}, {`\`, `\`}, {"%", "%2"}} {
				got := New("another secret", secret).Text(around[0] + shown + around[1])
				if !strings.Contains(got, mark) || len(got) > len(around[0])+len(mark)+len(around[1])+rest {
					t.Errorf("%s of %q in %q: %q", name, secret, around, got)
				}
			}
		}
	}
}

func TestTextWithoutSecrets(t *testing.T) {
	for _, text := range []string{"", "planted-token-0b7", "lanted-token-0b7d", "planted_token_0b7d", `\u`, "%", "&", "%zz", `\\\`, "&amp", "plain"} {
		if got := New("planted-token-0b7d").Text(text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
	if s := New("", ""); s != nil || s.Text("any") != "any" {
		t.Error("an empty secret is looked for")
	}
	var none *Secrets
	body := io.NopCloser(strings.NewReader("x"))
	if none.Reader(body) != body || none.Error(os.ErrNotExist) != os.ErrNotExist {
		t.Error("no secrets change something")
	}
}

func TestError(t *testing.T) {
	s := New("planted-token-0b7d")
	err := s.Error(fmt.Errorf("asking with planted%%2Dtoken%%2D0b7d: %w", os.ErrNotExist))
	if err.Error() != "asking with [hidden]: file does not exist" || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	if s.Error(os.ErrClosed) != os.ErrClosed || s.Error(nil) != nil {
		t.Error("an error without secrets is another one")
	}
}

// A body that comes in pieces is hidden like one that comes whole, and JSON
// stays JSON.
func TestReader(t *testing.T) {
	for _, secret := range secrets {
		for name, form := range forms {
			text, _ := json.Marshal(map[string]string{"a": `x\` + form(secret) + "\ny" + secret, "b": form(form(secret))})
			var whole string
			for size, pieces := range map[string]func(io.Reader) io.Reader{
				"whole":     func(r io.Reader) io.Reader { return r },
				"bytes":     iotest.OneByteReader,
				"halves":    iotest.HalfReader,
				"with EOF":  iotest.DataErrReader,
				"one by it": func(r io.Reader) io.Reader { return iotest.DataErrReader(iotest.OneByteReader(r)) },
			} {
				got, err := io.ReadAll(New(secret).Reader(io.NopCloser(pieces(bytes.NewReader(text)))))
				if err != nil || len(got) != len(text) || !json.Valid(got) {
					t.Fatalf("%s of %q, %s: %q, %v", name, secret, size, got, err)
				}
				if whole == "" {
					whole = string(got)
				}
				if string(got) != whole || bytes.Contains(got, []byte(inJSON(secret))) {
					t.Errorf("%s of %q, %s: %s, and %s", name, secret, size, got, whole)
				}
			}
		}
	}
}

// What cannot be a secret is handed out at once: it may be the end of an event.
func TestReaderHoldsBackLittle(t *testing.T) {
	in, out := io.Pipe()
	defer in.Close()
	r := New("planted-token-0b7d").Reader(in)
	for _, event := range []string{"data: planted-token-0b7\n\n", "data: \\\\\n\n", "data: %70%6c\n\n", "data: &#x70;\n\n", "data: c\n\n", "data: cG\r\n\r\n"} {
		go io.WriteString(out, event)
		got := make([]byte, len(event))
		if _, err := io.ReadFull(r, got); err != nil || string(got) != event {
			t.Errorf("got %q, %v, want %q", got, err, event)
		}
	}
	go func() {
		io.WriteString(out, "planted-")
		out.CloseWithError(io.ErrUnexpectedEOF)
	}()
	if got, err := io.ReadAll(r); string(got) != "planted-" || err != io.ErrUnexpectedEOF {
		t.Errorf("the end is %q, %v", got, err)
	}
}

// Whatever a server writes, what is held back does not grow.
func TestReaderIsBounded(t *testing.T) {
	s := New("planted-token-0b7d", `\\\\\\\\\\`, "%25%25%25%25%25")
	for _, piece := range []string{`\`, "%25", "%", "&", "&#", `\u`, "p", `\u005c`, "&amp;", "&#0000000000", "\n", `\n`, "%0D%0A", "c\r\n", `cG\n`} {
		r := s.Reader(io.NopCloser(iotest.HalfReader(strings.NewReader(strings.Repeat(piece, 10_000))))).(*reader)
		for buffer := make([]byte, 512); ; {
			_, err := r.Read(buffer)
			if len(r.filter.held) > 1000 {
				t.Fatalf("%q: %d bytes are held back", piece, len(r.filter.held))
			}
			if err != nil {
				break
			}
		}
	}
}

func FuzzReader(f *testing.F) {
	for _, secret := range secrets {
		for _, form := range forms {
			f.Add(secret, "before "+form(secret)+" after", 3)
		}
	}
	f.Fuzz(func(t *testing.T, secret, text string, size int) {
		if size < 1 || len(secret) > 100 || len(text) > 10_000 {
			return
		}
		s := New(secret)
		if s == nil {
			return
		}
		var pieces io.Reader = strings.NewReader(text)
		if size < 1000 {
			pieces = &inPieces{text, size}
		}
		got, err := io.ReadAll(s.Reader(io.NopCloser(pieces)))
		if err != nil || len(got) != len(text) {
			t.Fatalf("%d of %d bytes, %v", len(got), len(text), err)
		}
		if strings.Trim(secret, "*") != "" && !strings.Contains(secret, "*") && bytes.Contains(got, []byte(secret)) {
			t.Errorf("%q is in %q", secret, got)
		}
		if short := s.Text(text); !strings.Contains(mark, secret) && !strings.Contains(short, mark) && short != text {
			t.Errorf("%q became %q", text, short)
		}
	})
}

type inPieces struct {
	text string
	size int
}

func (r *inPieces) Read(p []byte) (int, error) {
	if r.text == "" {
		return 0, io.EOF
	}
	n := copy(p, r.text[:min(r.size, len(r.text))])
	r.text = r.text[n:]
	return n, nil
}

func BenchmarkReader(b *testing.B) {
	text := []byte(strings.Repeat(`{"name":"tool","description":"says \"hello\" to everybody, 100% of the time"},`, 10_000))
	s := New("eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJmZWVkIn0.MEUCIQD-_abcdefghijklmnop")
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := io.Copy(io.Discard, s.Reader(io.NopCloser(bytes.NewReader(text)))); err != nil {
			b.Fatal(err)
		}
	}
}
