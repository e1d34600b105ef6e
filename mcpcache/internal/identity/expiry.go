package identity

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"time"
)

// AdmittedUntil returns until when the server's acceptance of a request counts: up to the
// operator's limit, or up to the earliest end of a token in the request if that is sooner.
// Tokens are JWTs (RFC 7519) in any field of the header, such as Authorization or Cookie,
// and in the query. The server has just accepted the request, so a token that ended before
// does not count beside one that lasts. If all have ended, the acceptance counts no longer
// than they did. The claims need not be verified: a lie can only make the time shorter.
func AdmittedUntil(r *http.Request, now time.Time, limit time.Duration) time.Time {
	until := now.Add(limit)
	var ended, lasting time.Time // the latest end that has passed, the earliest that has not
	look := func(text string) {
		for token := range strings.FieldsFuncSeq(text, endsToken) {
			switch exp, ok := expiry(token); {
			case !ok:
			case !exp.After(now) && exp.After(ended):
				ended = exp
			case exp.After(now) && (lasting.IsZero() || exp.Before(lasting)):
				lasting = exp
			}
		}
	}
	for _, values := range r.Header {
		for _, value := range values {
			look(value)
		}
	}
	if r.URL != nil {
		look(r.URL.RawQuery)
	}
	switch {
	case !lasting.IsZero() && lasting.Before(until):
		return lasting
	case lasting.IsZero() && !ended.IsZero():
		return ended
	}
	return until
}

// endsToken reports whether a character is in no JWT (RFC 7515 section 3.1).
func endsToken(c rune) bool {
	return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.'
}

// maxExpiry is beyond every time that makes a difference (the year 9999).
const maxExpiry = 253402300799

// expiry returns the exp claim of a JWT.
func expiry(token string) (time.Time, bool) {
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
