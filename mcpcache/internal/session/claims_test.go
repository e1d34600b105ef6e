package session

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/seal"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/secret"
)

var (
	sealer = NewSealer(secret.Ring{{1}})
	now    = time.Unix(1_700_000_000, 0)
)

// initialize writes such a request.
func initialize(capabilities, info string) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":%s,"clientInfo":%s}}`, capabilities, info)
}

func TestClient(t *testing.T) {
	long := strings.Repeat("é", 100)
	for name, tt := range map[string]struct {
		capabilities, info string
		want               Claims
	}{
		"nothing":   {`{}`, `{"name":"x","version":"1"}`, Claims{Capabilities: []byte(`{}`), Name: "x", Version: "1"}},
		"answering": {`{"roots":{"listChanged":true},"sampling":{},"elicitation":{},"tasks":{}}`, `{"name":"x"}`, Claims{Capabilities: []byte(`{}`), Name: "x"}},
		"extensions": {`{ "extensions" : {"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]}},"sampling":{},"experimental":{"n":1}}`, `{"name":"x","version":"1"}`,
			Claims{Capabilities: []byte(`{"experimental":{"n":1},"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]}}}`), Name: "x", Version: "1"}},
		"512 bytes":  {`{"a":"` + strings.Repeat("x", 504) + `"}`, `{"name":"x"}`, Claims{Capabilities: []byte(`{"a":"` + strings.Repeat("x", 504) + `"}`), Name: "x"}},
		"513 bytes":  {`{"a":"` + strings.Repeat("x", 505) + `"}`, `{"name":"x"}`, Claims{Capabilities: []byte(`{}`), Name: "x"}},
		"long names": {`{}`, fmt.Sprintf(`{"name":%q,"version":%q}`, long, long), Claims{Capabilities: []byte(`{}`), Name: long[:64], Version: long[:32]}},
	} {
		c, err := New(initialize(tt.capabilities, tt.info), revision.V20250618, now.Add(time.Hour))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		tt.want.ID, tt.want.Revision, tt.want.Expires = c.ID, revision.V20250618, now.Add(time.Hour)
		if !reflect.DeepEqual(c, tt.want) {
			t.Errorf("%s gives %+v, want %+v", name, c, tt.want)
		}
		text := c.Seal(sealer, "ada")
		if len(text) > MaxText {
			t.Errorf("%s: an id of %d characters", name, len(text))
		}
		if again, err := Open(sealer, text, "ada", now); err != nil || !reflect.DeepEqual(again, c) {
			t.Errorf("%s is %+v when opened, %v", name, again, err)
		}
		for what, open := range map[string]struct {
			as   string
			with *seal.Sealer
			at   time.Time
			want error
		}{
			"somebody else": {"bob", sealer, now, seal.ErrForeign},
			"nobody":        {"", sealer, now, seal.ErrForeign},
			"another key":   {"ada", NewSealer(secret.Ring{{2}}), now, seal.ErrForeign},
			"just in time":  {"ada", sealer, now.Add(time.Hour - 1), nil},
			"too late":      {"ada", sealer, now.Add(time.Hour), ErrOver},
		} {
			if _, err := Open(open.with, text, open.as, open.at); !errors.Is(err, open.want) {
				t.Errorf("%s, %s: %v, want %v", name, what, err, open.want)
			}
		}
	}
	one, _ := New(initialize(`{}`, `{"name":"x"}`), revision.V20250618, now)
	other, _ := New(initialize(`{}`, `{"name":"x"}`), revision.V20250618, now)
	if one.ID == other.ID {
		t.Error("two sessions have one id")
	}
}

// What is no initialize opens no session.
func TestBadClient(t *testing.T) {
	for name, request := range map[string][]byte{
		"no params":             []byte(`{"jsonrpc":"2.0","id":1,"method":"initialize"}`),
		"capabilities a list":   initialize(`[]`, `{"name":"x"}`),
		"capabilities repeated": initialize(`{"a":1,"a":2}`, `{"name":"x"}`),
	} {
		if c, err := New(request, revision.V20250618, now); err == nil {
			t.Errorf("%s opens %+v", name, c)
		}
	}
}

// What was sealed for other purposes, or says something else, is no session.
func TestForeign(t *testing.T) {
	whole := func(r byte) []byte {
		return append(append(make([]byte, 16), r), 0, 0, 0, 0, 255, 255, 255, 255, 0, 0, 0)
	}
	for name, plain := range map[string][]byte{
		"nothing": nil, "an unknown revision": whole(200), "no revision": whole(0), "a modern revision": whole(byte(revision.V20260728)),
		"cut": whole(byte(revision.V20250618))[:26], "a part too long": append(whole(byte(revision.V20250618))[:25], 5, 'x'),
	} {
		if c, err := Open(sealer, sealer.Seal(plain, nil), "", now); !errors.Is(err, seal.ErrForeign) {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
	}
	if _, err := Open(sealer, sealer.Seal(whole(byte(revision.V20250618)), nil), "", now); err != nil {
		t.Errorf("a whole one: %v", err)
	}
	if _, err := Open(sealer, strings.Repeat("x", MaxText+1), "", now); !errors.Is(err, seal.ErrForeign) {
		t.Errorf("a long one: %v", err)
	}
}

// The id that a session has depends on nothing but the secret and what is sealed: instances
// that share a secret read each other's, whatever their versions.
func TestTextStays(t *testing.T) {
	c := Claims{ID: ID{1}, Revision: revision.V20251125, Expires: now, Capabilities: []byte(`{}`), Name: "x", Version: "1"}
	const want = "C8PYGQGKAWdefMDFtPkgiHq21Xhh18QmICKg-qk3y0XToEcH0FrKzfsGN0XosaVufinriScKQOpST9DEz1e-Z7ZZ6Q"
	if text := c.Seal(sealer, "ada"); text != want {
		t.Errorf("it is %s", text)
	}
}

func BenchmarkOpen(b *testing.B) {
	c, _ := New(initialize(`{}`, `{"name":"client","version":"1.2.3"}`), revision.V20251125, now.Add(time.Hour))
	text := c.Seal(sealer, "")
	b.ReportMetric(float64(len(text)), "characters")
	for b.Loop() {
		if _, err := Open(sealer, text, "", now); err != nil {
			b.Fatal(err)
		}
	}
}

// TestOf: a caller who is known is the same client in each request, and nobody else.
func TestOf(t *testing.T) {
	of := func(whose, capabilities, name, version string) Claims {
		t.Helper()
		c, err := Of(whose, []byte(capabilities), name, version)
		if err != nil || c.Revision != revision.LatestLegacy {
			t.Fatalf("got %+v, %v", c, err)
		}
		return c
	}
	one := of("ada", `{"b":{},"a":{},"sampling":{}}`, "n", "1")
	if same := of("ada", `{"a":{},"b":{}}`, "n", "1"); same.ID != one.ID || string(same.Capabilities) != `{"a":{},"b":{}}` {
		t.Errorf("%+v is another client than %+v", same, one)
	}
	for name, other := range map[string]Claims{
		"user": of("bob", `{"a":{},"b":{}}`, "n", "1"), "capabilities": of("ada", `{}`, "n", "1"),
		"name": of("ada", `{"a":{},"b":{}}`, "m", "1"), "version": of("ada", `{"a":{},"b":{}}`, "n", "2"), "split": of("ad", `{"a":{},"b":{}}`, "an", "1"),
		"once": *one.Once(),
	} {
		if other.ID == one.ID {
			t.Errorf("one of another %s is the same client", name)
		}
	}
	if a, b := one.Once(), one.Once(); a.ID == b.ID || !a.IsOnce() || one.IsOnce() {
		t.Error("two requests have one client")
	}
	if c, err := Of("ada", []byte(`{"a":1,"a":2}`), "", ""); err == nil {
		t.Errorf("got %+v of capabilities that are repeated", c)
	}
}
