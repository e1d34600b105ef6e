package seal

import (
	"encoding/base64"
	"errors"
	"flag"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/secret"
)

var tampered = flag.Int("seal.tampered", 20_000, "how many tampered texts are tried")

func sealer(number byte) *Sealer { return New(secret.Ring{{number}}, "test") }

func TestSeal(t *testing.T) {
	s, owner := sealer(1), []byte("alice")
	for _, plain := range []string{"", "a", strings.Repeat("long", 200)} {
		text := s.Seal([]byte(plain), owner)
		if got, err := s.Open(text, owner); err != nil || string(got) != plain {
			t.Errorf("opened, it is %q, error %v", got, err)
		}
		if len(text) != Size(len(plain)) || !s.Made(text) {
			t.Errorf("%s is no text of ours, or has not %d characters", text, Size(len(plain)))
		}
		if s.Seal([]byte(plain), owner) != text || sealer(1).Seal([]byte(plain), owner) != text {
			t.Error("the same bytes give another text")
		}
		for name, open := range map[string]func() ([]byte, error){
			"another owner":   func() ([]byte, error) { return s.Open(text, []byte("bob")) },
			"another key":     func() ([]byte, error) { return sealer(2).Open(text, owner) },
			"another purpose": func() ([]byte, error) { return New(secret.Ring{{1}}, "other").Open(text, owner) },
			"a longer one":    func() ([]byte, error) { return s.Open(text+"A", owner) },
			"a shorter one":   func() ([]byte, error) { return s.Open(text[:len(text)-1], owner) },
			"another base":    func() ([]byte, error) { return s.Open(text[:8]+strings.Repeat("+", len(text)-8), owner) },
			"nothing":         func() ([]byte, error) { return s.Open("", owner) },
			"the mark alone":  func() ([]byte, error) { return s.Open(text[:8], owner) },
		} {
			if got, err := open(); !errors.Is(err, ErrForeign) {
				t.Errorf("%s: %q, error %v", name, got, err)
			}
		}
	}
}

// A secret is replaced: what the one before has sealed opens, and what is sealed from now on
// opens with the new one alone.
func TestRotation(t *testing.T) {
	before, after := sealer(1), sealer(2)
	both := New(secret.Ring{{2}, {1}}, "test")
	for _, text := range []string{before.Seal([]byte("x"), nil), after.Seal([]byte("x"), nil)} {
		if got, err := both.Open(text, nil); err != nil || string(got) != "x" || !both.Made(text) {
			t.Errorf("it is %q, error %v", got, err)
		}
	}
	if text := both.Seal([]byte("x"), nil); !after.Made(text) || before.Made(text) {
		t.Error("it was sealed with the secret before")
	}
}

// No tampered text opens, whatever is changed in it.
func TestTampered(t *testing.T) {
	s, owner := sealer(1), []byte("alice")
	r := rand.New(rand.NewPCG(1, 2))
	texts := []string{s.Seal([]byte("one"), owner), s.Seal([]byte("another"), owner), s.Seal([]byte("one"), []byte("bob"))}
	for range *tampered {
		raw, err := base64.RawURLEncoding.DecodeString(texts[r.IntN(len(texts))])
		if err != nil {
			t.Fatal(err)
		}
		for range 1 + r.IntN(3) {
			raw[r.IntN(len(raw))] ^= byte(1 + r.IntN(255))
		}
		text := base64.RawURLEncoding.EncodeToString(raw)
		if got, err := s.Open(text, owner); err == nil && text != texts[0] && text != texts[1] {
			t.Fatalf("%s opens: %q", text, got)
		}
	}
}
