package identity

import (
	"encoding/base64"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/admission"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// TestAdmittedUntil: the ends of the tokens in a request can only make the time of an admission
// shorter, and only those that had not passed.
func TestAdmittedUntil(t *testing.T) {
	f := rules()
	now := time.Date(2026, 7, 28, 12, 0, 0, 0, time.UTC)
	jwt := func(exp string) string {
		return "e30." + base64.RawURLEncoding.EncodeToString([]byte(`{"exp":`+exp+`}`)) + ".c"
	}
	const over, inOne, inTwo, later = "1", "1785240060", "1785240120", "1893456000" // minutes
	limit := now.Add(5 * time.Minute)
	for name, c := range map[string]struct {
		header http.Header
		query  string
		want   time.Time
	}{
		"nobody":             {nil, "", limit},
		"opaque":             {http.Header{"Authorization": {"Bearer a"}}, "", limit},
		"later":              {http.Header{"Authorization": {"Bearer " + jwt(later)}}, "", limit},
		"sooner":             {http.Header{"Authorization": {"Bearer " + jwt(inOne)}}, "", now.Add(time.Minute)},
		"over":               {http.Header{"Authorization": {"Bearer " + jwt(over)}}, "", time.Unix(1, 0)},
		"before all time":    {http.Header{"Authorization": {"Bearer " + jwt("-10000000000")}}, "", time.Unix(0, 0)},
		"ends now":           {http.Header{"Authorization": {"Bearer " + jwt("1785240000")}}, "", now},
		"the sooner":         {http.Header{"Authorization": {"Bearer " + jwt(inTwo), "Bearer " + jwt(inOne)}}, "", now.Add(time.Minute)},
		"both are over":      {http.Header{"Authorization": {jwt(over), jwt("2")}}, "", time.Unix(2, 0)},
		"the one that lasts": {http.Header{"Authorization": {"Bearer " + jwt(over)}, "X-Token": {jwt(inTwo)}}, "", now.Add(2 * time.Minute)},
		"huge":               {http.Header{"Authorization": {"Bearer " + jwt("1e300")}}, "", limit},
		"without a scheme":   {http.Header{"Authorization": {jwt(inOne)}}, "", now.Add(time.Minute)},
		"another scheme":     {http.Header{"Authorization": {"DPoP  " + jwt(inOne)}}, "", now.Add(time.Minute)},
		"another header":     {http.Header{"X-Key": {jwt(inOne)}}, "", now.Add(time.Minute)},
		"a cookie":           {http.Header{"Cookie": {"a=b; session=" + jwt(inOne) + "; c=d"}}, "", now.Add(time.Minute)},
		"a quoted cookie":    {http.Header{"Cookie": {`session="` + jwt(inOne) + `"`}}, "", now.Add(time.Minute)},
		"the query":          {nil, "a=b&token=" + jwt(inOne), now.Add(time.Minute)},
		"no token":           {http.Header{"X-Version": {"1.2.3", "..", "a.b.c", "e30.e30.", jwt("null"), jwt(`"a"`)}}, "", limit},
	} {
		t.Run(name, func(t *testing.T) {
			r := request()
			r.URL.RawQuery = c.query
			maps.Copy(r.Header, c.header)
			got := AdmittedUntil(r, now, 5*time.Minute)
			if !got.Equal(c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
			memo := admission.New(admission.DefaultCapacity)
			context := f.Of(r, nil)
			memo.AdmitContext(context, revision.V20260728, 0, memo.Ticket(), got)
			if caller := memo.Context(context, revision.V20260728); caller.Admitted(revision.Tools, now) != c.want.After(now) || caller.Admitted(revision.Tools, c.want) {
				t.Errorf("admitted now: %v, at the end: %v", caller.Admitted(revision.Tools, now), caller.Admitted(revision.Tools, c.want))
			}
		})
	}
	if got := AdmittedUntil(&http.Request{Header: http.Header{"X-Key": {jwt(inOne)}}}, now, 5*time.Minute); !got.Equal(now.Add(time.Minute)) {
		t.Errorf("of a header alone: %v", got)
	}
}

func TestExpiry(t *testing.T) {
	jwt := func(claims string) string {
		return "Bearer " + base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)) + "." +
			base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".signature"
	}
	for name, c := range map[string]struct {
		authorization string
		want          int64
		ok            bool
	}{
		"whole":            {jwt(`{"exp":1800000000}`), 1_800_000_000, true},
		"fraction":         {jwt(`{"exp":1800000000.999}`), 1_800_000_000, true},
		"exponent":         {jwt(`{"exp":1.8e9}`), 1_800_000_000, true},
		"other scheme":     {"DPoP" + strings.TrimPrefix(jwt(`{"exp":5}`), "Bearer"), 5, true},
		"zero":             {jwt(`{"exp":0}`), 0, true},
		"negative":         {jwt(`{"exp":-1}`), 0, true},
		"before all times": {jwt(`{"exp":-10000000000}`), 0, true},
		"far below":        {jwt(`{"exp":-1e300}`), 0, true},
		"last year":        {jwt(`{"exp":253402300799}`), maxExpiry, true},
		"year 10000":       {jwt(`{"exp":253402300800}`), 0, false},
		"huge":             {jwt(`{"exp":1e300}`), 0, false},
		"beyond a float":   {jwt(`{"exp":1e999}`), 0, false},
		"text":             {jwt(`{"exp":"1800000000"}`), 0, false},
		"null":             {jwt(`{"exp":null}`), 0, false},
		"an object":        {jwt(`{"exp":{}}`), 0, false},
		"none":             {jwt(`{"sub":"alice"}`), 0, false},
		"not an object":    {jwt(`[]`), 0, false},
		"not JSON":         {jwt(`exp`), 0, false},
		"padded":           {"Bearer a." + base64.URLEncoding.EncodeToString([]byte(`{"exp":50}`)) + ".c", 0, false},
		"not base64":       {"Bearer a.!.c", 0, false},
		"two parts":        {strings.TrimSuffix(jwt(`{"exp":5}`), ".signature"), 0, false},
		"opaque":           {"Bearer abcdef", 0, false},
		"no scheme":        {strings.TrimPrefix(jwt(`{"exp":5}`), "Bearer "), 5, true},
		"basic":            {"Basic YTpi", 0, false},
		"dots":             {"Bearer ...", 0, false},
		"empty":            {"", 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := expiry(c.authorization)
			if ok != c.ok || ok && got.Unix() != c.want {
				t.Errorf("got %v, %v; want %d, %v", got, ok, c.want, c.ok)
			}
		})
	}
}
