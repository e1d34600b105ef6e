// Package identity finds out who sends a request. The answer is an authorization context: it is
// made of everything in the request by which a server may tell callers apart. The package also
// finds out when the caller's credential expires.
//
// It knows nothing of what a caller asks for, of sessions and of admissions.
package identity

import (
	"crypto/sha256"
	"encoding/binary"
	"net/http"
	"slices"
	"strings"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/origin"
)

// Placeholders are the placeholders of a request: a
// [github.com/caddyserver/caddy/v2.Replacer].
type Placeholders interface {
	GetString(name string) (value string, known bool)
	ReplaceAll(text, empty string) string
}

// Rules are what tells the callers of one server apart.
type Rules struct {
	// Secret keys the hashes, which are of no use outside this process.
	Secret [32]byte
	// Partition has placeholders that tell callers apart too.
	Partition []string
	// Telling has the names of placeholders that the server is sent the values of.
	// With one, no request is anonymous. The feeds' requests have no values for them.
	Telling []string
	// Harmless has headers that do not, besides those that are known not to.
	Harmless Headers
	// Original says that the server is sent the URI from before a rewrite.
	Original bool
	// Host is the one in the feeds' requests, folded; "" if the Hosts of clients do
	// not reach the server.
	Host string
	// SameHosts are others, folded, at which the server shows the same lists.
	SameHosts []string
	// FeedValues has the values that the feeds' requests have for the placeholders of
	// Partition and Telling. A value that is missing is empty.
	FeedValues map[string]string
	// MessagesOnly says that the server receives nothing of a request but its message, as
	// programs do.
	MessagesOnly bool
}

// Of returns the authorization context of a request: a keyed hash of everything
// that can tell callers apart. A request that has nothing of that kind is
// anonymous. The placeholders may be nil.
func (rules *Rules) Of(r *http.Request, placeholders Placeholders) cache.Partition {
	var room [512]byte
	said := append(room[:0], rules.Secret[:]...)
	var places [2][8]string
	names := rules.count(names{places[0][:0], places[1][:0]}, r.Header)
	start := len(said)
	if rules.atAnotherHost(r) {
		said = appendField(said, "host", origin.FoldHost(r.Host))
	}
	host := len(said)
	said = rules.appendAsked(said, r, names.asked, placeholders)
	var asked cache.Asked
	if len(said) > start {
		sum := sha256.Sum256(said)
		asked = cache.Asked(sum[:16])
	}
	said = rules.appendWho(said, r, names.who, placeholders)
	switch len(said) {
	case start:
		return cache.Anonymous
	case host:
		return cache.AnonymousAt(asked)
	}
	sum := sha256.Sum256(said) // without credentials, the same as asked
	return cache.ContextOf([16]byte(sum[:16]), asked)
}

// OfFields returns the authorization context of a caller from whose header the server
// receives only those fields. lent is true if the request also carries the guard's
// credential. A request without that credential never gets the same context. A request
// with that credential and without fields gets the context of the feed.
func (rules *Rules) OfFields(fields http.Header, lent bool) cache.Partition {
	switch {
	case len(fields) == 0 && lent:
		return cache.FeedOnly
	case len(fields) == 0:
		return cache.Anonymous
	}
	said := append([]byte(nil), rules.Secret[:]...)
	start := len(said)
	var places [2][4]string
	names := names{places[0][:0], places[1][:0]}
	for name := range fields {
		names = names.with(name, saysWho(name))
	}
	names.sort()
	said = appendFields(said, fields, names.asked)
	var asked cache.Asked
	if len(said) > start {
		sum := sha256.Sum256(said)
		asked = cache.Asked(sum[:16])
	}
	if lent {
		said = appendField(said, "guard", "")
	}
	hash := sha256.Sum256(appendFields(said, fields, names.who))
	return cache.ContextOf([16]byte(hash[:16]), asked)
}

func appendFields(dst []byte, fields http.Header, names []string) []byte {
	for _, name := range names {
		for _, value := range fields[name] {
			dst = appendField(dst, name, value)
		}
	}
	return dst
}

// atAnotherHost reports whether the request reaches the server with another Host
// than the feeds' requests: the server may show different lists at each.
func (rules *Rules) atAnotherHost(r *http.Request) bool {
	if rules.Host == "" || r.Host == rules.Host {
		return false
	}
	host := origin.FoldHost(r.Host)
	return host != rules.Host && !slices.Contains(rules.SameHosts, host)
}

// originalPlaceholder is where Caddy keeps the URI of a request as it came.
const originalPlaceholder = "http.request.orig_uri"

// TellsOriginal reports whether a configuration with those placeholders may tell
// the server what a request was before it was rewritten.
func TellsOriginal(placeholders []string) bool {
	return slices.ContainsFunc(placeholders, func(name string) bool { return strings.HasPrefix(name, originalPlaceholder) })
}

// userPlaceholder is where Caddy's authenticating handlers put the user.
const userPlaceholder = "http.auth.user.id"

// appendField appends a name and a value so that no two lists of fields give
// the same bytes.
func appendField(dst []byte, name, value string) []byte {
	dst = append(append(dst, name...), 0)
	dst = binary.AppendUvarint(dst, uint64(len(value)))
	return append(dst, value...)
}
