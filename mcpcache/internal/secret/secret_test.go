package secret

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// numbered returns a secret that is the same each time.
func numbered(n byte) (s Secret) {
	for i := range s {
		s[i] = n ^ byte(i)*7
	}
	return s
}

func inBase64(s Secret) string { return base64.StdEncoding.EncodeToString(s[:]) }

func TestParse(t *testing.T) {
	one, two := numbered(0xfb), numbered(2)
	for name, c := range map[string]struct {
		text string
		want Ring
	}{
		"one":             {inBase64(one) + "\n", Ring{one}},
		"two":             {inBase64(one) + "\n" + inBase64(two), Ring{one, two}},
		"in digits":       {hex.EncodeToString(one[:]), Ring{one}},
		"in large digits": {strings.ToUpper(hex.EncodeToString(one[:])) + "\n", Ring{one}},
		"for URLs":        {base64.RawURLEncoding.EncodeToString(one[:]), Ring{one}},
		"spaces around":   {"\r\n \t" + inBase64(one) + " \r\n\n" + inBase64(two) + "\r\n\r\n", Ring{one, two}},
		"as encoded":      {string(Ring{two, one}.encode()), Ring{two, one}},
		"the same twice":  {inBase64(one) + "\n" + inBase64(one), Ring{one, one}},
	} {
		if got, err := Parse([]byte(c.text)); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %d secrets, error %v", name, len(got), err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	one := numbered(1)
	for name, text := range map[string]string{
		"nothing":         "",
		"lines of spaces": " \n\t\n",
		"31 bytes":        base64.StdEncoding.EncodeToString(one[:31]),
		"33 bytes":        base64.StdEncoding.EncodeToString(append(one[:], 1)),
		"31 in digits":    hex.EncodeToString(one[:31]),
		"33 in digits":    hex.EncodeToString(append(one[:], 1)),
		"the bytes":       string(one[:]),
		"a phrase":        "correct horse battery staple....",
		"three":           strings.Repeat(inBase64(one)+"\n", 3),
		"two on a line":   inBase64(one) + " " + inBase64(one),
		"a second, bad":   inBase64(one) + "\nold",
		"a comment":       "# current\n" + inBase64(one),
	} {
		ring, err := Parse([]byte(text))
		if err == nil || ring != nil {
			t.Errorf("%s: %d secrets", name, len(ring))
			continue
		}
		for word := range strings.FieldsSeq(text) {
			if len(word) > 3 && strings.Contains(err.Error(), word) {
				t.Errorf("%s: the error repeats the content: %v", name, err)
			}
		}
	}
}

// However a secret is written out, nothing of it is seen.
func TestSecretsAreHidden(t *testing.T) {
	s := numbered(0x41)
	ring := Ring{s, s}
	var said []string
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
		said = append(said, fmt.Sprintf(verb, s), fmt.Sprintf(verb, ring), fmt.Sprintf(verb, &s), fmt.Sprintf(verb, struct{ S Secret }{s}))
	}
	asJSON, err := json.Marshal(map[string]any{"ring": ring, "one": s, "pointer": &s})
	if err != nil {
		t.Fatal(err)
	}
	line, err := zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()).EncodeEntry(zapcore.Entry{},
		[]zapcore.Field{zap.Any("one", s), zap.Any("ring", ring), zap.Reflect("r", ring)})
	if err != nil {
		t.Fatal(err)
	}
	said = append(said, string(asJSON), line.String())
	seen := []string{
		string(s[:6]), inBase64(s)[:8], hex.EncodeToString(s[:4]), strings.ToUpper(hex.EncodeToString(s[:4])),
		fmt.Sprintf("%d %d %d", s[0], s[1], s[2]), fmt.Sprintf("%d,%d", s[0], s[1]), fmt.Sprintf("%#x, %#x", s[0], s[1]),
	}
	for _, text := range said {
		for _, part := range seen {
			if strings.Contains(text, part) {
				t.Errorf("%q is in %s", part, text)
			}
		}
		if !strings.Contains(text, hidden) {
			t.Errorf("nothing stands for the secret in %s", text)
		}
	}
}

func TestDerive(t *testing.T) {
	one, two := numbered(1), numbered(2)
	if again := numbered(1); one.Derive("a") != again.Derive("a") {
		t.Error("a key is another one each time")
	}
	if one.Derive("a") == one.Derive("b") || one.Derive("a") == two.Derive("a") || one.Derive("a") == [Size]byte(one) {
		t.Error("keys for different purposes or of different secrets are the same")
	}
	if first, second := New(), New(); first == second {
		t.Error("two new secrets are the same")
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(inBase64(numbered(1))))
	f.Add([]byte(inBase64(numbered(1)) + "\n" + strings.Repeat("ab", 32)))
	f.Fuzz(func(t *testing.T, content []byte) {
		ring, err := Parse(content)
		if err != nil {
			return
		}
		if len(ring) < 1 || len(ring) > MaxRing {
			t.Fatalf("%d secrets", len(ring))
		}
		if again, err := Parse(ring.encode()); err != nil || !slices.Equal(again, ring) {
			t.Fatalf("written and read again, it is another ring: %v", err)
		}
	})
}
