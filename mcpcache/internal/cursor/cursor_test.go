package cursor

import (
	"errors"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/secret"
)

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

// The text of a cursor depends on nothing but the secret, the position and the owner:
// instances that share a secret read each other's, whatever their versions.
func TestTextStays(t *testing.T) {
	const want = "U7xPvkxsAU4ZdZlG3nwo9lpTJuMs2-E1jw8mDMN-LiT0Vsi6X1YmwLSHuO_ifdGcWo-Y_peT9d_2H91eLTNnUBJ4t6lQ4fw"
	if text := sealer(1).Seal(somewhere, []byte("alice")); text != want {
		t.Errorf("it is %s", text)
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
