package exchange

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	zaptest "go.uber.org/zap/zaptest/observer"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/volatileheaders"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/warnings"
)

// watchedFace is a face in front of a server that lists something private, with
// what it logs.
func watchedFace(t *testing.T, c config) (*face, *zaptest.ObservedLogs) {
	t.Helper()
	f := newFace(t, c)
	core, logs := zaptest.New(zapcore.InfoLevel)
	f.Warnings = warnings.New(zap.New(core))
	f.upstreamIs(listing("a"))
	return f, logs
}

// detailOf sends a list of a client with those header fields, and returns what
// Cache-Status says but for the name.
func detailOf(t *testing.T, f *face, client string, fields ...string) string {
	t.Helper()
	r := modernRequest("tools/list", "")
	r.RemoteAddr = client
	for i := 0; i < len(fields); i += 2 {
		r.Header.Set(fields[i], fields[i+1])
	}
	_, detail, _ := strings.Cut(f.serve(t, r).Header().Get("Cache-Status"), "; ")
	return detail
}

const someClient = "192.0.2.1:1234"

func TestRestlessHeaderIsNamedOnce(t *testing.T) {
	f, logs := watchedFace(t, config{})
	for i := range 3 * volatileheaders.NewValues {
		want := "fwd=bypass; detail=admission"
		if i >= volatileheaders.NewValues-1 {
			want = "fwd=bypass; detail=header"
		}
		// Each request may come on a connection of its own.
		if got := detailOf(t, f, fmt.Sprint("192.0.2.1:", i), "X-Nonce", fmt.Sprint(i), "X-Steady", "a"); got != want {
			t.Errorf("request %d: %s, want %s", i, got, want)
		}
	}
	if all := logs.All(); len(all) != 1 || all[0].ContextMap()["header"] != "X-Nonce" || !strings.Contains(all[0].Message, "harmless") ||
		all[0].Level != zapcore.WarnLevel {
		t.Errorf("logged %v", all)
	}
	if got := detailOf(t, f, someClient, "X-Steady", "b"); got != "fwd=bypass; detail=admission" {
		t.Errorf("without the header: %s", got)
	}
	f, logs = watchedFace(t, config{Harmless: []string{"X-Nonce"}})
	for i := range 3 * volatileheaders.NewValues {
		if got := detailOf(t, f, someClient, "X-Nonce", fmt.Sprint(i), "X-Steady", "a"); strings.HasPrefix(got, "hit") != (i > 0) {
			t.Errorf("request %d, called harmless: %s", i, got)
		}
	}
	if logs.Len() != 0 {
		t.Errorf("logged %v", logs.All())
	}
}

// Whether there is a caller behind each value is seen by whether it comes again.
func TestWhatIsRestless(t *testing.T) {
	const callers = 4 * volatileheaders.NewValues
	refuse := stand(func(w http.ResponseWriter, _ *http.Request) error {
		w.WriteHeader(http.StatusUnauthorized)
		return nil
	})
	for name, c := range map[string]struct {
		config   config
		upstream stand
		ask      func(t *testing.T, f *face)
		named    []string
	}{
		"many callers who come again": {config{}, nil, func(t *testing.T, f *face) {
			for i := range callers {
				detailOf(t, f, someClient, "X-Key", fmt.Sprint(i))
				detailOf(t, f, someClient, "X-Key", fmt.Sprint(i))
			}
		}, nil},
		"some come again": {config{}, nil, func(t *testing.T, f *face) {
			for i := range callers {
				detailOf(t, f, someClient, "X-Key", fmt.Sprint(i))
				detailOf(t, f, someClient, "X-Key", fmt.Sprint(i/4*4))
			}
		}, nil},
		"new callers of many addresses": {config{}, nil, func(t *testing.T, f *face) {
			for i := range callers {
				detailOf(t, f, fmt.Sprintf("192.0.2.%d:1", i), "X-Key", fmt.Sprint(i))
			}
		}, nil},
		"new callers behind a proxy": {config{}, nil, func(t *testing.T, f *face) {
			for i := range callers {
				detailOf(t, f, someClient, "X-Key", fmt.Sprint(i), "X-Forwarded-For", fmt.Sprint("192.0.2.", i))
			}
		}, nil},
		"refused callers":      {config{}, refuse, eachNew("X-Key"), nil},
		"tokens":               {config{}, nil, eachNew("Authorization"), nil},
		"proofs":               {config{}, nil, eachNew("Dpop"), []string{"Dpop"}},
		"tokens of a gateway":  {config{}, nil, eachNew("X-Pomerium-Jwt-Assertion"), []string{"X-Pomerium-Jwt-Assertion"}},
		"cookies":              {config{}, nil, eachNew("Cookie"), []string{"Cookie"}},
		"harmless":             {config{}, nil, eachNew("X-Request-Id"), nil},
		"private, nobody asks": {config{Admit: "all"}, nil, eachNew("X-Nonce"), []string{"X-Nonce"}},
		"two of them": {config{}, nil, func(t *testing.T, f *face) {
			for i := range callers {
				detailOf(t, f, someClient, "X-Nonce", fmt.Sprint(i), "X-Time", fmt.Sprint(-i))
			}
		}, []string{"X-Nonce", "X-Time"}},
		"many clients at once": {config{}, nil, func(t *testing.T, f *face) {
			for i := range volatileheaders.NewValues {
				for j := range 2 * volatileheaders.NumTrails {
					detailOf(t, f, fmt.Sprintf("192.0.%d.%d:1", j/256, j%256), "X-Nonce", fmt.Sprint(i, j))
				}
			}
		}, []string{"X-Nonce"}},
		"one less than enough": {config{}, nil, func(t *testing.T, f *face) {
			for i := range volatileheaders.NewValues - 1 {
				detailOf(t, f, someClient, "X-Nonce", fmt.Sprint(i))
			}
		}, nil},
		"again and again the same": {config{}, refuse, func(t *testing.T, f *face) {
			for i := range callers {
				detailOf(t, f, someClient, "X-Nonce", fmt.Sprint(i%(volatileheaders.NewValues-1)))
			}
		}, nil},
		"in a session": {config{}, nil, func(t *testing.T, f *face) {
			ledger := f.backend.Admission
			ledger.AdmitSession("s", cache.Anonymous, revision.V20251125, 0, ledger.Ticket(), time.Now().Add(time.Hour))
			for i := range volatileheaders.NewValues {
				r := legacyRequest(revision.V20251125, "s", "tools/list")
				r.Header.Set("X-Nonce", fmt.Sprint(i))
				f.serve(t, r)
			}
		}, []string{"X-Nonce"}},
	} {
		t.Run(name, func(t *testing.T) {
			f, logs := watchedFace(t, c.config)
			if c.upstream != nil {
				f.upstreamIs(c.upstream)
			}
			c.ask(t, f)
			var named []string
			for _, entry := range logs.All() {
				named = append(named, entry.ContextMap()["header"].(string))
			}
			if len(named) != len(c.named) || len(c.named) > 0 && !sameNames(named, c.named) {
				t.Errorf("named %v, want %v", named, c.named)
			}
		})
	}
}

func sameNames(got, want []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(got)), want)
}

// eachNew asks with a new value of that header each time.
func eachNew(name string) func(*testing.T, *face) {
	return func(t *testing.T, f *face) {
		for i := range 4 * volatileheaders.NewValues {
			detailOf(t, f, someClient, name, fmt.Sprint(i))
		}
	}
}

// Clients can make up headers; neither the log nor the memory grows with them.
func TestRestlessIsBounded(t *testing.T) {
	f, logs := watchedFace(t, config{})
	for n := range 2 * volatileheaders.MaxFound {
		for i := range volatileheaders.NewValues {
			detailOf(t, f, someClient, fmt.Sprintf("X-Made-Up-%d-%s", n, strings.Repeat("a", maxHeaderName)), fmt.Sprint(i))
		}
	}
	if logs.Len() != volatileheaders.MaxFound {
		t.Errorf("%d lines are logged; want %d", logs.Len(), volatileheaders.MaxFound)
	}
	for _, entry := range logs.All() {
		if name := entry.ContextMap()["header"].(string); len(name) > maxHeaderName {
			t.Errorf("the log has %q", name)
		}
	}
}

// That lists are not shared for nothing but the Host is logged once for each.
func TestHostIsNamedOnce(t *testing.T) {
	f, logs := watchedFace(t, config{})
	f.backend.Identity.Host = "feed.example"
	f.pinned(t, revision.V20260728, cache.Anonymous, time.Hour, 0, "a")
	ask := func(host string, fields ...string) (detail string) {
		r := modernRequest("tools/list", "")
		r.Host = host
		for i := 0; i < len(fields); i += 2 {
			r.Header.Set(fields[i], fields[i+1])
		}
		_, detail, _ = strings.Cut(f.serve(t, r).Header().Get("Cache-Status"), "; ")
		return detail
	}
	ask("feed.example")
	ask("other.example", "Authorization", "Bearer a")
	if logs.Len() != 0 {
		t.Errorf("logged %v", logs.All())
	}
	if detail := ask("other.example"); detail != "fwd=bypass; detail=admission" {
		t.Errorf("who is not let in got %s", detail)
	}
	for range 2 {
		if detail := ask("other.example"); detail != "fwd=bypass; detail=host" {
			t.Errorf("who is let in got %s", detail)
		}
	}
	ask("another.example")
	f.backend.Identity.SameHosts = []string{"same.example:8443"}
	ask("Same.example:8443")
	if detail := ask("Same.example:8443"); !strings.HasPrefix(detail, "hit") {
		t.Errorf("at a Host with the same lists: %s", detail)
	}
	if all := logs.All(); len(all) != 2 || all[0].ContextMap()["host"] != "other.example" || !strings.Contains(all[0].Message, "feed.example") {
		t.Errorf("logged %v", all)
	}
}
