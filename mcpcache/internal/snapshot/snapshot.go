// Package snapshot encodes the feeds' snapshots for a store, and decodes them. An encoded snapshot
// has a line with a title and a checksum, a line about the list, and the bytes of the list. If
// others may write to the store, only instances that know a secret can make the checksum. The
// package rejects a snapshot that is damaged, of another list or version, or from the future.
//
// It knows nothing of stores.
package snapshot

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/secret"
)

// title begins every snapshot. The number is the version of the format; no other is
// read.
const title = "mcp_cache snapshot 1 "

var (
	// errPrivate says that a snapshot must not leave the process.
	errPrivate = errors.New("snapshot is not public or anonymous")
	// errForeign says that what was read is of another version or another list, or
	// from the future.
	errForeign = errors.New("not a snapshot of this list")
	// errCorrupt says that what was read is damaged.
	errCorrupt = errors.New("snapshot is corrupt")
	// errSeal says that what was read is damaged, or was not sealed by one of us.
	errSeal = errors.New("snapshot is corrupt, or sealed with another secret: instances that share a store need one secret_file, or one storage of Caddy")
)

// maxSkew is by how much a clock may be ahead of the one by which a snapshot is read.
const maxSkew = time.Minute

// Terms are those on which snapshots are written and read. The zero ones are those of a
// store that is trusted: times are by the clock of this machine.
type Terms struct {
	// Secrets seal: the first of them what is written. Without any there is a digest.
	Secrets secret.Ring
	// Place is where the snapshot is kept, with Secrets: it is worth nothing elsewhere.
	Place string
	// Ahead is how far the clock by which times are written is ahead of ours, and Within by how
	// much that may be wrong.
	Ahead, Within time.Duration
}

// AsOf returns a time by our clock as one by the clock by which times are written: it may have
// been later there, but not earlier. It is zero if ours is.
func (t Terms) AsOf(ours time.Time) time.Time {
	if ours.IsZero() {
		return ours
	}
	return ours.Add(t.Ahead - t.Within)
}

// about is what is stored of a list besides its bytes.
type about struct {
	Kind       string `json:"kind"`
	Revision   string `json:"revision"`
	Public     bool   `json:"public,omitempty"`
	TTL        bool   `json:"ttl,omitempty"`         // the upstream gave a ttlMs
	NeverFresh bool   `json:"never_fresh,omitempty"` // its lifetime is 0
	// Announced says that a change of the list was announced and the new list not
	// fetched yet.
	Announced bool          `json:"announced,omitempty"`
	Fetched   time.Time     `json:"fetched"`
	Lifetime  time.Duration `json:"lifetime,omitempty"`
	State
}

// State is what is stored with a snapshot besides the list.
type State struct {
	// AsOf is a time no later than the upstream was asked for the list, by the clock by which
	// times are written; zero if that is not known.
	AsOf time.Time `json:"as_of,omitzero"`
	// Admitted is until when the upstream's acceptance of callers without
	// credentials counts; zero if it has not accepted them.
	Admitted time.Time `json:"admitted,omitzero"`
	// Clients are those that were given this very list by the upstream.
	Clients []Client `json:"clients,omitempty"`
}

// Client is what the clients of one variant have in common.
type Client struct {
	Capabilities json.RawMessage `json:"capabilities"`
	Name         string          `json:"name,omitempty"`
	Language     string          `json:"language,omitempty"`
}

// maxClients is how many bytes are stored of clients.
const maxClients = 16 << 10

// bounded returns the clients that there is room for.
func bounded(clients []Client) []Client {
	room := maxClients
	for i, c := range clients {
		if room -= len(c.Capabilities) + len(c.Name) + len(c.Language); room < 0 {
			return clients[:i]
		}
	}
	return clients
}

// Shareable reports whether a snapshot may leave the process: anybody may be
// given it, or anybody without credentials.
func Shareable(e *cache.Entry) bool {
	return e.Partition == cache.Public || e.Partition == cache.Anonymous
}

// Encode encodes a snapshot, whether a change of it has been announced since it was
// fetched, and its state; of very many clients not all. It fails if the snapshot is not
// [Shareable].
func Encode(e *cache.Entry, announced bool, state State, terms Terms) ([]byte, error) {
	state.Clients = bounded(state.Clients)
	if !Shareable(e) {
		return nil, errPrivate
	}
	head, err := json.Marshal(about{
		Kind: e.Kind.String(), Revision: e.Revision.String(), Public: e.Partition == cache.Public,
		TTL: e.Body.HasTTL, NeverFresh: e.Lifetime <= 0, Lifetime: max(e.Lifetime, 0), Fetched: e.Fetched.Add(terms.Ahead),
		Announced: announced, State: state,
	})
	if err != nil {
		return nil, fmt.Errorf("writing a snapshot: %w", err)
	}
	return terms.seal(head, e.Body.Bytes), nil
}

// Overhead is an upper bound of what a snapshot has besides the bytes of its list, in
// bytes.
const Overhead = 4<<10 + 8*maxClients

// seal joins head and list, and puts the title and their checksum in front.
func (t Terms) seal(head, list []byte) []byte {
	const lines = 2
	data := make([]byte, sealLength, sealLength+lines+len(head)+len(list))
	data = append(append(append(data, '\n'), head...), '\n')
	data = append(data, list...)
	copy(data, t.checksums(data[sealLength+1:])[0])
	return data
}

const sealLength = len(title) + 2*sha256.Size

// checksums returns the first lines that what is sealed may have: one for each secret, the one
// that is written first.
func (t Terms) checksums(sealed []byte) [][]byte {
	if len(t.Secrets) == 0 {
		sum := sha256.Sum256(sealed)
		return [][]byte{hex.AppendEncode([]byte(title), sum[:])}
	}
	lines := make([][]byte, len(t.Secrets))
	for i, one := range t.Secrets {
		key := one.Derive("snapshot")
		h := hmac.New(sha256.New, key[:])
		h.Write(binary.AppendUvarint(nil, uint64(len(t.Place))))
		h.Write([]byte(t.Place))
		h.Write(sealed)
		lines[i] = hex.AppendEncode([]byte(title), h.Sum(nil))
	}
	return lines
}

// open checks the first line and returns what follows it.
func (t Terms) open(data []byte) ([]byte, error) {
	if !bytes.HasPrefix(data, []byte(title)) {
		return nil, errForeign
	}
	said, sealed, ok := bytes.Cut(data, []byte("\n"))
	if ok && slices.ContainsFunc(t.checksums(sealed), func(want []byte) bool { return hmac.Equal(said, want) }) {
		return sealed, nil
	}
	if len(t.Secrets) > 0 {
		return nil, errSeal
	}
	return nil, errCorrupt
}

// Decode decodes a snapshot of that list, and its state. If a change had been announced before
// it was stored, its mark is the zero one. The error is an [errForeign], an
// [errCorrupt] or an [errSeal].
func Decode(data []byte, r revision.Revision, k revision.Kind, now time.Time, terms Terms) (*cache.Entry, State, error) {
	sealed, err := terms.open(data)
	if err != nil {
		return nil, State{}, err
	}
	head, list, _ := bytes.Cut(sealed, []byte("\n"))
	var said about
	if json.Unmarshal(head, &said) != nil || said.Kind != k.String() || said.Revision != r.String() {
		return nil, State{}, errForeign
	}
	fetched := said.Fetched.Add(-terms.Ahead)
	if fetched.After(now.Add(maxSkew)) {
		return nil, State{}, fmt.Errorf("%w: it is from the future", errForeign)
	}
	if fetched.After(now) {
		fetched = now
	}
	body, err := readBody(list, k)
	if err != nil {
		return nil, State{}, err
	}
	body.HasTTL = said.TTL
	e := &cache.Entry{
		Kind: k, Revision: r, Body: body, Fetched: fetched,
		Partition: cache.Anonymous,
	}
	if !said.Announced {
		e.Mark = cache.Start()
	}
	if !said.AsOf.IsZero() {
		e.Asked = said.AsOf.Add(-terms.Ahead)
	}
	if !said.NeverFresh {
		e.Lifetime = max(said.Lifetime, time.Nanosecond)
	}
	if said.Public {
		e.Partition = cache.Public
	}
	return e, said.State, nil
}

// readBody makes a body of the bytes that [message.Body.Bytes] had.
func readBody(list []byte, k revision.Kind) (*message.Body, error) {
	result, ok := bytes.CutSuffix(list, []byte("}"))
	if !ok {
		return nil, errCorrupt
	}
	page, err := message.ParsePage(append([]byte{'{'}, result...), k)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errCorrupt, err)
	}
	body := message.Single(k, page)
	if !page.Complete || page.NextCursor != nil || !bytes.Equal(body.Bytes, list) {
		return nil, errCorrupt
	}
	return body, nil
}
