package cursor

import (
	"encoding/base64"
	"errors"
	"flag"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/secret"
)

var tampered = flag.Int("cursor.tampered", 20_000, "how many tampered cursors are tried")

func sealer(number byte) *Sealer { return NewSealer(secret.Ring{{number}}) }

var somewhere = Position{Index: 7, Last: NameHash("a"), List: [16]byte{1, 2, 3}}

func TestSeal(t *testing.T) {
	s, owner := sealer(1), []byte("alice")
	text := s.Seal(somewhere, owner)
	if got, err := s.Open(text, owner); err != nil || got != somewhere {
		t.Errorf("opened, it is %+v, error %v", got, err)
	}
	if s.Seal(somewhere, owner) != text || sealer(1).Seal(somewhere, owner) != text {
		t.Error("the same position gives another cursor")
	}
	other := somewhere
	other.Index++
	for name, cursor := range map[string]string{
		"of another position": s.Seal(other, owner), "for somebody else": s.Seal(somewhere, []byte("bob")),
		"with another key": sealer(2).Seal(somewhere, owner),
	} {
		if cursor == text || cursor[:18] == text[:18] {
			t.Errorf("a cursor %s is the same, or has the same nonce", name)
		}
	}
	for name, open := range map[string]func() (Position, error){
		"another owner": func() (Position, error) { return s.Open(text, []byte("bob")) },
		"another key":   func() (Position, error) { return sealer(2).Open(text, owner) },
		"a longer one":  func() (Position, error) { return s.Open(text+"A", owner) },
		"a shorter one": func() (Position, error) { return s.Open(text[:len(text)-1], owner) },
		"another base":  func() (Position, error) { return s.Open(strings.Repeat("+", len(text)), owner) },
		"nothing":       func() (Position, error) { return s.Open("", owner) },
	} {
		if p, err := open(); !errors.Is(err, ErrForeign) {
			t.Errorf("%s: %+v, error %v", name, p, err)
		}
	}
}

// A secret is replaced: what the one before has sealed opens, and what is sealed from
// now on opens with the new one alone.
func TestRotation(t *testing.T) {
	owner := []byte("alice")
	before, after := sealer(1), sealer(2)
	both := NewSealer(secret.Ring{{2}, {1}})
	for _, text := range []string{before.Seal(somewhere, owner), after.Seal(somewhere, owner)} {
		if p, err := both.Open(text, owner); err != nil || p != somewhere || !both.Made(text) {
			t.Errorf("it is %+v, error %v", p, err)
		}
	}
	if text := both.Seal(somewhere, owner); !after.Made(text) || before.Made(text) {
		t.Error("it was sealed with the secret before")
	}
}

// The text of a cursor depends on nothing but the secret, the position and the owner:
// instances that share a secret read each other's, whatever their versions.
func TestTextStays(t *testing.T) {
	const want = "U7xPvkxsAU4ZdZlG3nwo9lpTJuMs2-E1jw8mDMN-LiT0Vsi6X1YmwLSHuO_ifdGcWo-Y_peT9d_2H91eLTNnUBJ4t6lQ4fw"
	if text := sealer(1).Seal(somewhere, []byte("alice")); text != want {
		t.Errorf("it is %s", text)
	}
}

// No tampered cursor opens, whatever is changed in it.
func TestTampered(t *testing.T) {
	s, owner := sealer(1), []byte("alice")
	r := rand.New(rand.NewPCG(1, 2))
	texts := []string{s.Seal(somewhere, owner), s.Seal(Position{}, owner), s.Seal(somewhere, []byte("bob"))}
	for range *tampered {
		raw, err := base64.RawURLEncoding.DecodeString(texts[r.IntN(len(texts))])
		if err != nil {
			t.Fatal(err)
		}
		for range 1 + r.IntN(3) {
			raw[r.IntN(len(raw))] ^= byte(1 + r.IntN(255))
		}
		if r.IntN(4) == 0 { // the beginning of one, the end of another
			other, _ := base64.RawURLEncoding.DecodeString(texts[r.IntN(len(texts))])
			copy(raw[r.IntN(len(raw)):], other[r.IntN(len(other)):])
		}
		text := base64.RawURLEncoding.EncodeToString(raw)
		p, err := s.Open(text, owner)
		if err == nil && text != texts[0] && text != texts[1] {
			t.Fatalf("%s opens: %+v", text, p)
		}
	}
}

func BenchmarkOpen(b *testing.B) {
	s, owner := sealer(1), []byte("alice")
	text := s.Seal(somewhere, owner)
	for b.Loop() {
		if _, err := s.Open(text, owner); err != nil {
			b.Fatal(err)
		}
	}
}
