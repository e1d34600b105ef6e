// Package session has the sessions of legacy clients with several servers behind one endpoint. The
// id of a session seals its [Claims]: everything that has to outlive a process. A [Table] has an
// [Entry] for each session for which anything is open or remembered. An entry has the [Upstream]
// sessions, one with each server, and opens them by a [Dialer].
package session

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/seal"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/secret"
)

// ID tells a session from all others.
type ID [16]byte

// Claims are sealed in a client's Mcp-Session-Id. They describe the client as whom the toolkit opens
// sessions with servers.
type Claims struct {
	ID       ID
	Revision revision.Revision
	Expires  time.Time // in whole seconds
	// Capabilities is a JSON object in canonical form (RFC 8785).
	Capabilities  []byte
	Name, Version string

	// Shared is true if many unknown callers may use the session. It is not sealed.
	Shared bool
	// once is true if the claims are for one request.
	once bool
}

// Bounds of what is sealed, in bytes.
const (
	// MaxCapabilities is the most of capabilities. If there are more, none is sealed.
	MaxCapabilities = 512
	maxName         = 64
	maxVersion      = 32
)

// answering are the capabilities of a client to answer requests of a server. No server is
// told of them, as there is no way for such requests yet.
var answering = []string{"roots", "sampling", "elicitation", "tasks"}

// New returns the claims of a client that has sent that initialize.
func New(initialize []byte, r revision.Revision, expires time.Time) (Claims, error) {
	said, err := message.ParseClient(initialize)
	if err != nil {
		return Claims{}, err
	}
	capabilities, err := offered(said.Capabilities)
	if err != nil {
		return Claims{}, fmt.Errorf("capabilities: %w", err)
	}
	c := Claims{
		Revision: r, Expires: expires, Capabilities: capabilities, Name: cut(said.Name, maxName),
		Version: cut(message.StringAt(initialize, "params", "clientInfo", "version"), maxVersion),
	}
	_, _ = rand.Read(c.ID[:]) // crypto/rand never returns an error
	return c, nil
}

// Of returns the claims of a modern client, which has no session itself. The toolkit opens sessions
// with legacy servers by them. All requests of the client get the same claims. whose names the
// caller.
func Of(whose string, capabilities []byte, name, version string) (Claims, error) {
	capabilities, err := offered(capabilities)
	if err != nil {
		return Claims{}, fmt.Errorf("clientCapabilities: %w", err)
	}
	c := Claims{Revision: revision.LatestLegacy, Capabilities: capabilities, Name: cut(name, maxName), Version: cut(version, maxVersion)}
	parts := []byte("modern")
	for _, part := range []string{whose, string(c.Capabilities), c.Name, c.Version} {
		parts = append(binary.AppendUvarint(parts, uint64(len(part))), part...)
	}
	sum := sha256.Sum256(parts)
	copy(c.ID[:], sum[:])
	return c, nil
}

// Once returns the same claims for a single request.
func (c *Claims) Once() *Claims {
	once := *c
	once.Shared, once.once = false, true
	_, _ = rand.Read(once.ID[:]) // crypto/rand never returns an error
	return &once
}

// IsOnce reports whether the claims are for a single request: see [Claims.Once].
func (c *Claims) IsOnce() bool { return c.once }

// offered returns what servers are told of a client's capabilities.
func offered(capabilities []byte) ([]byte, error) {
	if _, err := message.Canonical(capabilities); err != nil {
		return nil, err
	}
	some, err := message.Without(capabilities, answering...)
	if err != nil {
		return nil, err
	}
	if some, err = message.Canonical(some); err != nil || len(some) > MaxCapabilities {
		return []byte("{}"), err
	}
	return some, nil
}

// cut returns the beginning of a text: at most so many bytes, of whole characters.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}

// NewSealer returns the sealer of session ids.
func NewSealer(secrets secret.Ring) *seal.Sealer { return seal.New(secrets, "session") }

// Seal returns the Mcp-Session-Id that seals the claims. Only that principal can use it.
func (c *Claims) Seal(s *seal.Sealer, principal string) string {
	plain := append(make([]byte, 0, 64+len(c.Capabilities)), c.ID[:]...)
	plain = append(plain, byte(c.Revision)) // revisions are numbered by age: the number of one stays
	plain = binary.BigEndian.AppendUint64(plain, uint64(c.Expires.Unix()))
	for _, part := range []string{string(c.Capabilities), c.Name, c.Version} {
		plain = append(binary.AppendUvarint(plain, uint64(len(part))), part...)
	}
	return s.Seal(plain, []byte(principal))
}

// MaxText is the longest Mcp-Session-Id that is looked at, in bytes.
const MaxText = 1 << 10

// ErrOver says that a session's time is over.
var ErrOver = errors.New("the session has expired")

// Open returns the claims of an Mcp-Session-Id. It returns [seal.ErrForeign] if the id was not sealed
// here for that principal, and [ErrOver] if the session has expired.
func Open(s *seal.Sealer, text, principal string, now time.Time) (c Claims, err error) {
	if len(text) > MaxText {
		return Claims{}, seal.ErrForeign
	}
	plain, err := s.Open(text, []byte(principal))
	if err != nil {
		return Claims{}, err
	}
	const fixed = len(c.ID) + 1 + 8
	if len(plain) < fixed {
		return Claims{}, seal.ErrForeign
	}
	c.ID, c.Revision = ID(plain[:len(c.ID)]), revision.Revision(plain[len(c.ID)])
	c.Expires = time.Unix(int64(binary.BigEndian.Uint64(plain[len(c.ID)+1:])), 0)
	plain = plain[fixed:]
	var parts [3]string
	for i := range parts {
		size, n := binary.Uvarint(plain)
		if n <= 0 || size > uint64(len(plain)-n) {
			return Claims{}, seal.ErrForeign // of a later version of this module
		}
		parts[i], plain = string(plain[n:n+int(size)]), plain[n+int(size):]
	}
	c.Capabilities, c.Name, c.Version = []byte(parts[0]), parts[1], parts[2]
	switch {
	case c.Revision == revision.Unknown || c.Revision.Era() != revision.Legacy:
		return Claims{}, seal.ErrForeign
	case !now.Before(c.Expires):
		return Claims{}, ErrOver
	}
	return c, nil
}
