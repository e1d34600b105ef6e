// Package secret has the secrets of which this module makes its keys, such as the keys of sealed
// cursors. It reads a secret from a file, or from a storage that several instances may share. It
// knows nothing of what the keys seal.
package secret

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
)

// Size is the length of a secret in bytes.
const Size = 32

// Secret is what keys are made of. It is never used as one itself. Formatting it
// shows nothing of it.
type Secret [Size]byte

// New returns a secret made by chance.
func New() (s Secret) {
	_, _ = rand.Read(s[:]) // crypto/rand never returns an error
	return s
}

// hidden stands for a secret wherever one is written out.
const hidden = "[secret]"

// Format implements [fmt.Formatter].
func (Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, hidden) }

// MarshalText implements [encoding.TextMarshaler], for logs and JSON.
func (Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// Derive returns the key for a purpose. Keys for different purposes say nothing of
// each other, nor of the secret.
func (s Secret) Derive(purpose string) [Size]byte {
	h := hmac.New(sha256.New, s[:])
	h.Write([]byte("mcp_cache " + purpose))
	return [Size]byte(h.Sum(nil))
}

// Ring is the secrets in use, one or two. The first seals; what any of them has
// sealed opens.
type Ring []Secret

// MaxRing is how many secrets are in use at a time: enough to replace one.
const MaxRing = 2

var (
	errLines  = fmt.Errorf("more than %d secrets, want one on a line", MaxRing)
	errFormat = fmt.Errorf("want %d random bytes on a line, in base64 or hexadecimal digits", Size)
)

// Parse reads a ring: one or two lines, the secret that seals first, each of 32 bytes
// in base64, as `openssl rand -base64 32` writes them, or in hexadecimal digits. Empty
// lines do not count. Its errors repeat nothing of the content.
func Parse(content []byte) (Ring, error) {
	var ring Ring
	for line := range bytes.Lines(content) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		if len(ring) == MaxRing {
			return nil, errLines
		}
		decoded, ok := decode(string(line))
		if !ok {
			return nil, errFormat
		}
		ring = append(ring, decoded)
	}
	if len(ring) == 0 {
		return nil, errFormat
	}
	return ring, nil
}

// decode reads a secret in one of the two spellings, which differ in length.
func decode(text string) (s Secret, ok bool) {
	var raw []byte
	var err error
	if len(text) == hex.EncodedLen(Size) {
		raw, err = hex.DecodeString(text)
	} else {
		text = strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(text, "="))
		raw, err = base64.RawStdEncoding.DecodeString(text)
	}
	if err != nil || len(raw) != Size {
		return Secret{}, false
	}
	return Secret(raw), true
}

// encode writes a ring as Parse reads it.
func (r Ring) encode() []byte {
	var text []byte
	for _, s := range r {
		text = append(base64.StdEncoding.AppendEncode(text, s[:]), '\n')
	}
	return text
}
