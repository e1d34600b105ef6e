// Package seal seals short texts that callers keep for the cache, such as cursors. Only the cache
// can read and make a sealed text, and the text is worth nothing to another caller. A [Sealer]
// seals and opens texts, and a [Source] loads its secrets.
package seal

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

// ErrForeign says that a text was not sealed with that key, or for others.
var ErrForeign = errors.New("it was not sealed here, or not for this caller")

const (
	version   = 1
	nonceSize = 12
	tagSize   = 16
	// markSize is how many characters the mark has that texts begin with.
	markSize = 8
)

// Size returns how long the text is that so many bytes are sealed in.
func Size(plain int) int {
	return markSize + base64.RawURLEncoding.EncodedLen(1+nonceSize+plain+tagSize)
}

// Sealer seals and opens texts for one purpose. It is immutable.
type Sealer struct {
	keys []key // the first seals
}

// key is what is made of one secret.
type key struct {
	aead  cipher.AEAD
	nonce [secret.Size]byte // keys the nonces
	mark  string
}

// New returns a sealer with keys made of secrets, of which there has to be one: the first
// seals, what was sealed with any of them opens.
func New(secrets secret.Ring, purpose string) *Sealer {
	s := &Sealer{keys: make([]key, len(secrets))}
	for i, one := range secrets {
		s.keys[i] = newKey(one, purpose)
	}
	return s
}

func newKey(s secret.Secret, purpose string) key {
	own, mark := s.Derive(purpose+" key"), s.Derive(purpose+" mark")
	block, _ := aes.NewCipher(own[:]) // it fails for other lengths alone
	aead, _ := cipher.NewGCM(block)   // it fails for other blocks alone
	return key{aead: aead, nonce: s.Derive(purpose + " nonce"), mark: base64.RawURLEncoding.EncodeToString(mark[:])[:markSize]}
}

// Seal returns the text for those whom owner tells from others. The same bytes give the
// same text: the nonce is made of what is sealed (as RFC 5297 does), so that no nonce comes
// twice with something else.
func (s *Sealer) Seal(plain, owner []byte) string {
	k := &s.keys[0]
	h := hmac.New(sha256.New, k.nonce[:])
	h.Write(binary.AppendUvarint(nil, uint64(len(owner))))
	h.Write(owner)
	h.Write(plain)
	sealed := append(make([]byte, 0, 1+nonceSize+len(plain)+tagSize), version)
	sealed = append(sealed, h.Sum(nil)[:nonceSize]...)
	sealed = k.aead.Seal(sealed, sealed[1:1+nonceSize], plain, owner)
	return k.mark + base64.RawURLEncoding.EncodeToString(sealed)
}

// Made reports whether a text looks like one that the sealer has made, for whomever, and
// may have been changed. Those of sealers with other secrets do not.
func (s *Sealer) Made(text string) bool { return s.keyOf(text) != nil }

// keyOf returns the key that a text looks as if it was sealed with, or nil.
func (s *Sealer) keyOf(text string) *key {
	if len(text) < Size(0) {
		return nil
	}
	for i := range s.keys {
		if text[:markSize] == s.keys[i].mark {
			return &s.keys[i]
		}
	}
	return nil
}

// Open returns what a text has sealed. It is [ErrForeign] if the text is not one that Seal
// returned for the same owner.
func (s *Sealer) Open(text string, owner []byte) ([]byte, error) {
	k := s.keyOf(text)
	if k == nil {
		return nil, ErrForeign
	}
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(text[markSize:])
	if err != nil || sealed[0] != version {
		return nil, ErrForeign
	}
	plain, err := k.aead.Open(nil, sealed[1:1+nonceSize], sealed[1+nonceSize:], owner)
	if err != nil {
		return nil, ErrForeign
	}
	return plain, nil
}
