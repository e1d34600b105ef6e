// Package cursor seals the cursors of the pages that the cache cuts itself. It knows nothing of
// lists and of requests.
package cursor

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/seal"
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
var ErrForeign = seal.ErrForeign

const positions = 4 + 16 + 16 // bytes of a position

// Sealer seals and opens cursors. It is immutable.
type Sealer struct{ sealer *seal.Sealer }

// NewSealer returns a sealer with keys made of secrets. See [seal.New].
func NewSealer(secrets secret.Ring) *Sealer { return &Sealer{seal.New(secrets, "cursor")} }

// Seal returns the cursor of a position for those whom owner tells from others. The
// same position gives the same text.
func (s *Sealer) Seal(p Position, owner []byte) string {
	return s.sealer.Seal(p.append(make([]byte, 0, positions)), owner)
}

// Made reports whether a cursor looks like one that the sealer has made, for whomever,
// and may have been changed. Those of sealers with other secrets do not.
func (s *Sealer) Made(text string) bool {
	return len(text) == seal.Size(positions) && s.sealer.Made(text)
}

// Open returns the position of a cursor. It is [ErrForeign] if the cursor is not one
// that Seal returned for the same owner.
func (s *Sealer) Open(text string, owner []byte) (Position, error) {
	if len(text) != seal.Size(positions) {
		return Position{}, ErrForeign
	}
	plain, err := s.sealer.Open(text, owner)
	if err != nil {
		return Position{}, err
	}
	return Position{
		Index: binary.BigEndian.Uint32(plain), Last: [16]byte(plain[4:20]), List: [16]byte(plain[20:36]),
	}, nil
}

func (p Position) append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, p.Index)
	return append(append(dst, p.Last[:]...), p.List[:]...)
}
