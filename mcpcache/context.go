package mcpcache

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
)

// contextOf returns the authorization context of a request: a keyed hash of
// everything that can tell callers apart. A request that has nothing of that
// kind is anonymous. Its replacer may be nil.
func (h *Handler) contextOf(r *http.Request, repl *caddy.Replacer) cache.Partition {
	var room [512]byte
	seed := append(room[:0], h.shared.secret[:]...)
	said := seed
	said = h.settings.appendHeaders(said, r.Header)
	if r.URL.RawQuery != "" {
		said = appendField(said, "query", r.URL.RawQuery)
	}
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		said = appendField(said, "certificate", string(r.TLS.PeerCertificates[0].Raw))
	}
	if repl != nil {
		if user, ok := repl.GetString(userPlaceholder); ok && user != "" {
			said = appendField(said, "user", user)
		}
		for _, placeholder := range h.settings.partition {
			if value := repl.ReplaceAll(placeholder, ""); value != "" {
				said = appendField(appendField(said, "partition", placeholder), "value", value)
			}
		}
	}
	anonymous := len(said) == len(seed)
	elsewhere := h.atAnotherHost(r)
	if anonymous && !elsewhere {
		return cache.Anonymous
	}
	if elsewhere {
		said = appendField(said, "host", lower(r.Host))
	}
	sum := sha256.Sum256(said)
	if anonymous {
		return cache.AnonymousAt([16]byte(sum[:16]))
	}
	return cache.ContextOf([16]byte(sum[:16]))
}

// userPlaceholder is where Caddy's authenticating handlers put the user.
const userPlaceholder = "http.auth.user.id"

// appendHeaders appends the headers that are not known to be harmless, in an
// order of its own.
func (s *settings) appendHeaders(dst []byte, header http.Header) []byte {
	var room [8]string
	names := room[:0]
	for name := range header {
		if !s.isHarmless(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		for _, value := range header[name] {
			if name == baggage {
				if value = withoutTracers(value); value == "" {
					continue
				}
			}
			dst = appendField(dst, name, value)
		}
	}
	return dst
}

// appendField appends a name and a value so that no two lists of fields give
// the same bytes.
func appendField(dst []byte, name, value string) []byte {
	dst = append(append(dst, name...), 0)
	dst = binary.AppendUvarint(dst, uint64(len(value)))
	return append(dst, value...)
}

// admittedUntil is how long the upstream's acceptance of a request counts: the
// operator's limit, or the end that the token itself claims if that is sooner.
// The claim is not verified. It needs not be: the upstream has just accepted
// the token, and a lie can only make the time shorter.
func (h *Handler) admittedUntil(r *http.Request, now time.Time) time.Time {
	until := now.Add(h.settings.admitFor)
	for _, value := range r.Header["Authorization"] {
		if exp, ok := expiry(value); ok && exp.Before(until) {
			until = exp
		}
	}
	return until
}

// maxExpiry is beyond every time that makes a difference (the year 9999).
const maxExpiry = 253402300799

// expiry returns the exp claim of a bearer token that is a JWT (RFC 7519).
func expiry(authorization string) (time.Time, bool) {
	_, token, _ := strings.Cut(authorization, " ")
	_, rest, ok := strings.Cut(token, ".")
	payload, _, signed := strings.Cut(rest, ".")
	if !ok || !signed {
		return time.Time{}, false
	}
	decoded, err := base64.RawURLEncoding.DecodeString(payload)
	if err != nil {
		return time.Time{}, false
	}
	var claims struct {
		Exp *float64 `json:"exp"`
	}
	if json.Unmarshal(decoded, &claims) != nil || claims.Exp == nil || *claims.Exp > maxExpiry {
		return time.Time{}, false
	}
	return time.Unix(int64(max(*claims.Exp, 0)), 0), true // before 1970 is as good as 1970
}
