// Package cursor seals the cursors of pages that a cache cuts itself. What is sealed
// can be read and made by nobody else, and is worth nothing to another caller. It
// knows nothing of lists and of requests.
package cursor

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/secret"
)

// Position is where the page before has ended.
type Position struct {
	// Index is the number of the next item.
	Index uint32
	// Last tells the item before it by its name: see [NameHash].
	Last [16]byte
	// List is the beginning of the digest of the list that was cut.
	List [16]byte
}

// NameHash is what a position keeps of a name.
func NameHash(name string) [16]byte {
	sum := sha256.Sum256([]byte(name))
	return [16]byte(sum[:16])
}

// ErrForeign says that a cursor was not sealed with that key, or for others.
var ErrForeign = errors.New("cursor is not one of ours")

const (
	version   = 1
	positions = 4 + 16 + 16 // bytes of a position
	nonceSize = 12
	size      = 1 + nonceSize + positions + 16 // with the tag
	// markSize is how many characters the mark has that cursors begin with.
	markSize = 8
)

// Sealer seals and opens cursors. It is immutable.
type Sealer struct {
	keys []key // the first seals
}

// key is what is made of one secret.
type key struct {
	aead  cipher.AEAD
	nonce [secret.Size]byte // keys the nonces
	mark  string
}

// NewSealer returns a sealer with keys made of secrets, of which there has to be one: the
// first seals, what was sealed with any of them opens.
func NewSealer(secrets secret.Ring) *Sealer {
	s := &Sealer{keys: make([]key, len(secrets))}
	for i, one := range secrets {
		s.keys[i] = newKey(one)
	}
	return s
}

func newKey(s secret.Secret) key {
	own, mark := s.Derive("cursor key"), s.Derive("cursor mark")
	block, _ := aes.NewCipher(own[:]) // it fails for other lengths alone
	aead, _ := cipher.NewGCM(block)   // it fails for other blocks alone
	return key{aead: aead, nonce: s.Derive("cursor nonce"), mark: base64.RawURLEncoding.EncodeToString(mark[:])[:markSize]}
}

// Seal returns the cursor of a position for those whom owner tells from others. The
// same position gives the same text: the nonce is made of what is sealed (as RFC
// 5297 does), so that no nonce comes twice with something else.
func (s *Sealer) Seal(p Position, owner []byte) string {
	k := &s.keys[0]
	plain := p.append(make([]byte, 0, positions))
	h := hmac.New(sha256.New, k.nonce[:])
	h.Write(binary.AppendUvarint(nil, uint64(len(owner))))
	h.Write(owner)
	h.Write(plain)
	sealed := append(make([]byte, 0, size), version)
	sealed = append(sealed, h.Sum(nil)[:nonceSize]...)
	sealed = k.aead.Seal(sealed, sealed[1:1+nonceSize], plain, owner)
	return k.mark + base64.RawURLEncoding.EncodeToString(sealed)
}

// Made reports whether a cursor looks like one that the sealer has made, for whomever,
// and may have been changed. Those of sealers with other secrets do not.
func (s *Sealer) Made(text string) bool { return s.keyOf(text) != nil }

// keyOf returns the key that a cursor looks as if it was sealed with, or nil.
func (s *Sealer) keyOf(text string) *key {
	if len(text) != markSize+base64.RawURLEncoding.EncodedLen(size) {
		return nil
	}
	for i := range s.keys {
		if text[:markSize] == s.keys[i].mark {
			return &s.keys[i]
		}
	}
	return nil
}

// Open returns the position of a cursor. It is [ErrForeign] if the cursor is not one
// that Seal returned for the same owner.
func (s *Sealer) Open(text string, owner []byte) (Position, error) {
	k := s.keyOf(text)
	if k == nil {
		return Position{}, ErrForeign
	}
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(text[markSize:])
	if err != nil || sealed[0] != version {
		return Position{}, ErrForeign
	}
	plain, err := k.aead.Open(nil, sealed[1:1+nonceSize], sealed[1+nonceSize:], owner)
	if err != nil {
		return Position{}, ErrForeign
	}
	return Position{
		Index: binary.BigEndian.Uint32(plain), Last: [16]byte(plain[4:20]), List: [16]byte(plain[20:36]),
	}, nil
}

func (p Position) append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, p.Index)
	return append(append(dst, p.Last[:]...), p.List[:]...)
}
