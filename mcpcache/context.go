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

// harmless reports whether a request header does not tell callers apart. One
// that is not known here may be a credential of a kind we have never heard of,
// so it makes an authorization context of its own: a list is rather fetched
// once too often than given to somebody else. The names are canonical. (A
// switch takes half the time of a map, eight times a request.)
func harmless(name string) bool {
	switch name {
	case
		// the message and its representation
		"Accept", "Accept-Charset", "Accept-Encoding", "Accept-Language", "Content-Encoding", "Content-Language",
		"Content-Length", "Content-Type", "Expect", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
		"Upgrade-Insecure-Requests", "Connection", "Keep-Alive", "Proxy-Connection", "Priority", "Range",
		"Cache-Control", "Pragma", "If-None-Match", "If-Modified-Since", "Date",
		// MCP
		"Mcp-Protocol-Version", "Mcp-Session-Id", "Mcp-Method", "Mcp-Name", "Last-Event-Id",
		// what a browser or client says of itself
		"User-Agent", "Origin", "Referer", "Host", "Dnt", "Save-Data", "Sec-Ch-Ua", "Sec-Ch-Ua-Mobile",
		"Sec-Ch-Ua-Platform", "Sec-Fetch-Dest", "Sec-Fetch-Mode", "Sec-Fetch-Site", "Sec-Fetch-User",
		"Sec-Fetch-Storage-Access", "Sec-Gpc", "X-Requested-With",
		// the way the request came
		"Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Port", "X-Forwarded-Proto",
		"X-Forwarded-Server", "X-Forwarded-Scheme", "X-Original-Url", "X-Real-Ip", "X-Envoy-External-Address",
		"X-Envoy-Expected-Rq-Timeout-Ms", "X-Envoy-Attempt-Count", "Cdn-Loop", "Cf-Connecting-Ip", "Cf-Ipcountry",
		"Cf-Ray", "Cf-Visitor", "Cf-Warp-Tag-Id", "True-Client-Ip", "Fly-Client-Ip", "Fly-Region", "Fly-Request-Id",
		"Early-Data",
		// tracing
		"Traceparent", "Tracestate", "Baggage", "B3", "X-B3-Traceid", "X-B3-Spanid", "X-B3-Parentspanid",
		"X-B3-Sampled", "X-B3-Flags", "X-Request-Id", "X-Correlation-Id", "X-Amzn-Trace-Id", "X-Cloud-Trace-Context",
		"X-Datadog-Trace-Id", "X-Datadog-Parent-Id", "X-Datadog-Sampling-Priority", "X-Datadog-Tags",
		"X-Datadog-Origin", "Sentry-Trace", "Uber-Trace-Id", "Request-Id", "Newrelic":
		return true
	}
	return false
}

// contextOf returns the authorization context of a request: a keyed hash of
// everything that can tell callers apart. A request that has nothing of that
// kind is anonymous. Its replacer may be nil.
func (h *Handler) contextOf(r *http.Request, repl *caddy.Replacer) cache.Partition {
	var room [512]byte
	seed := append(room[:0], h.shared.secret[:]...)
	said := seed
	said = appendHeaders(said, r.Header)
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
	if len(said) == len(seed) {
		return cache.Anonymous
	}
	sum := sha256.Sum256(said)
	return cache.ContextOf([16]byte(sum[:16]))
}

// userPlaceholder is where Caddy's authenticating handlers put the user.
const userPlaceholder = "http.auth.user.id"

// appendHeaders appends the headers that are not known to be harmless, in an
// order of its own.
func appendHeaders(dst []byte, header http.Header) []byte {
	var room [8]string
	names := room[:0]
	for name := range header {
		if !harmless(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		for _, value := range header[name] {
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
