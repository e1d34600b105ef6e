package exchange

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

var legacyRevisions = []revision.Revision{revision.V20250326, revision.V20250618, revision.V20251125}

// TestValidRequestsAreUnderstood asks for every kind at every revision.
func TestValidRequestsAreUnderstood(t *testing.T) {
	f := newFace(t, config{})
	kinds := append(revision.Kinds(), revision.Reads)
	for _, r := range revision.All() {
		for _, k := range kinds {
			t.Run(fmt.Sprintf("%s %s", r, k), func(t *testing.T) {
				req := legacyRequest(r, "session", k.Method())
				if r.Era() == revision.Modern {
					req = modernRequest(k.Method(), "")
				}
				var detail string
				if k == revision.Reads {
					detail = `"file:///a"`
					req = reading(r, detail)
				}
				want := understood
				if !k.In(r) {
					want = bypassRevision
				}
				x, reason := f.question(t, req)
				if reason != want {
					t.Fatalf("got %q, want %q", reason, want)
				}
				q := x.question
				if want == understood && (q.kind != k || q.revision != r || string(q.detail) != detail || q.stream ||
					q.variant != (cache.Variant{}) || x.in.Method != k.Method()) {
					t.Errorf("understood as %+v", q)
				}
				if legacy := r.Era() == revision.Legacy; legacy != (x.session == "session") {
					t.Errorf("the session is %q", x.session)
				}
			})
		}
	}
}

// reading is a resources/read of a raw URI.
func reading(r revision.Revision, uri string) *http.Request {
	if r.Era() == revision.Modern {
		req := modernRequest("resources/read", `"uri":`+uri)
		req.Header.Set("Mcp-Name", strings.Trim(uri, `"`))
		return req
	}
	req := legacyRequest(r, "session", "resources/read")
	withBody(req, `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":`+uri+`}}`)
	return req
}

// TestEveryDeviationIsForwarded sends each request as it should be and with one
// thing wrong, when the list is in the cache: only the valid one is a hit.
func TestEveryDeviationIsForwarded(t *testing.T) {
	for _, r := range revision.All() {
		t.Run(r.String(), func(t *testing.T) {
			f := newFace(t, config{})
			f.pinned(t, r, cache.Public, time.Hour, 0, "cached")
			ledger := f.backend.Admission
			until := time.Now().Add(time.Hour)
			ledger.OpenSession("session", cache.Anonymous, r, cache.Variant{}, ledger.Ticket(), until)
			ledger.OpenSession("session-of-bob", cache.ContextOf([16]byte{1}, cache.Asked{}), r, cache.Variant{}, ledger.Ticket(), until)
			modern := r.Era() == revision.Modern
			if modern {
				ledger.AdmitContext(cache.Anonymous, r, 0, ledger.Ticket(), until)
			}
			request := func() *http.Request {
				if modern {
					return modernRequest("tools/list", "")
				}
				req := legacyRequest(r, "session", "tools/list")
				withBody(req, `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"progressToken":1}}}`)
				return req
			}
			for name, change := range harmlessChanges {
				wantHitAfter(t, f, name, request(), change)
			}
			for name, d := range deviations {
				if !modern && strings.HasPrefix(name, "bad progress") {
					continue // it has one already
				}
				wantBypassAfter(t, f, name, request(), d.change, d.want)
			}
			if !modern {
				for name, d := range legacyDeviations {
					wantBypassAfter(t, f, name, request(), d.change, d.want)
				}
				return
			}
			for name, change := range harmlessModernChanges {
				wantHitAfter(t, f, name, request(), change)
			}
			for name, d := range modernDeviations {
				wantBypassAfter(t, f, name, request(), d.change, d.want)
			}
		})
	}
}

func wantHitAfter(t *testing.T, f *face, name string, r *http.Request, change func(*http.Request)) {
	t.Helper()
	change(r)
	w := f.serve(t, r)
	if status := w.Header().Get("Cache-Status"); !strings.HasPrefix(status, "mcp_cache; hit; ttl=") ||
		!strings.Contains(w.Body.String(), `"cached"`) || f.asked() != 0 {
		t.Errorf("%s: want a hit, got %q, %s", name, status, w.Body)
	}
}

func wantBypassAfter(t *testing.T, f *face, name string, r *http.Request, change func(*http.Request), want bypass) {
	t.Helper()
	change(r)
	sent, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	length := r.ContentLength
	withBody(r, string(sent))
	r.ContentLength = length
	header := r.Header.Clone()
	var arrived *http.Request
	var body []byte
	f.upstreamIs(func(w http.ResponseWriter, r *http.Request) (err error) {
		arrived = r
		body, err = io.ReadAll(r.Body)
		w.WriteHeader(http.StatusTeapot)
		return err
	})
	w := f.serve(t, r)
	if got := w.Header().Get("Cache-Status"); got != "mcp_cache; fwd=bypass; detail="+string(want) || w.Code != http.StatusTeapot || f.asked() != 1 {
		t.Errorf("%s: want a bypass for %q, got %d, %q", name, want, w.Code, got)
		return
	}
	if string(body) != string(sent) {
		t.Errorf("%s: %.80q was sent, %.80q arrived", name, sent, body)
	}
	for field, values := range header {
		if !slices.Equal(arrived.Header[field], values) {
			t.Errorf("%s: header %s was %q, arrived as %q", name, field, values, arrived.Header[field])
		}
	}
	if len(arrived.Header) != len(header) {
		t.Errorf("%s: header was %v, arrived as %v", name, header, arrived.Header)
	}
}

func TestModernDetails(t *testing.T) {
	f := newFace(t, config{})
	cursor := func(raw string) *http.Request { return modernRequest("tools/list", `"cursor":`+raw) }
	for name, c := range map[string]struct {
		r      *http.Request
		want   bypass
		detail string
	}{
		"cursor":           {cursor(`"2"`), understood, `"2"`},
		"empty cursor":     {cursor(`""`), understood, `""`},
		"escaped cursor":   {cursor(`"\u0032"`), understood, `"\u0032"`},
		"discover, cursor": {modernRequest("server/discover", `"cursor":"2"`), bypassCursor, ""},
		"read, cursor":     {withName(modernRequest("resources/read", `"uri":"a","cursor":"2"`), "a"), bypassCursor, ""},
		"read":             {withName(modernRequest("resources/read", `"uri":"a:b"`), "a:b"), understood, `"a:b"`},
		"read, no uri":     {withName(modernRequest("resources/read", ""), "a"), bypassParams, ""},
		"read, uri null":   {withName(modernRequest("resources/read", `"uri":null`), "a"), bypassInvalid, ""},
		"read, no name":    {modernRequest("resources/read", `"uri":"a"`), bypassRevision, ""},
		"read, other name": {withName(modernRequest("resources/read", `"uri":"a"`), "b"), bypassRevision, ""},
		"read, two names":  {withName(modernRequest("resources/read", `"uri":"a"`), "a", "a"), bypassRevision, ""},
		"read, escaped":    {withName(modernRequest("resources/read", `"uri":"\u0061"`), "a"), bypassRevision, ""},
		"read, encoded":    {withName(modernRequest("resources/read", `"uri":"a"`), "=?base64?YQ==?="), bypassRevision, ""},
		"read, state":      {withName(modernRequest("resources/read", `"uri":"a","requestState":"s"`), "a"), bypassParams, ""},
	} {
		x, reason := f.question(t, c.r)
		if reason != c.want || reason == understood && string(x.question.detail) != c.detail {
			t.Errorf("%s: got %q, detail %q; want %q, %q", name, reason, x.question.detail, c.want, c.detail)
		}
	}
}

func withName(r *http.Request, names ...string) *http.Request {
	r.Header["Mcp-Name"] = names
	return r
}

// Clients of other capabilities may be shown other lists.
func TestCapabilitiesAreAVariant(t *testing.T) {
	f := newFace(t, config{})
	variants := make(map[cache.Variant]string)
	for _, capabilities := range []string{`{}`, `{"elicitation":{}}`, `{"sampling":{}}`, `{"elicitation":{},"sampling":{}}`} {
		r := modernRequest("tools/list", "")
		editBody(r, `clientCapabilities":{}`, `clientCapabilities":`+capabilities)
		x, reason := f.question(t, r)
		if reason != understood {
			t.Fatalf("%s: got %q", capabilities, reason)
		}
		x.resolve(nil, x.language())
		if other, ok := variants[x.question.variant]; ok {
			t.Errorf("%s and %s are one variant", capabilities, other)
		}
		variants[x.question.variant] = capabilities
		if own := x.question.variant == (cache.Variant{}); own != (capabilities == "{}") || own != (x.question.record == nil) {
			t.Errorf("%s: variant %v, capabilities %s", capabilities, x.question.variant, x.question.capabilities)
		}
	}
}

func TestKindsThatAreNotCached(t *testing.T) {
	f := newFace(t, config{Kinds: []string{"prompts", "resources"}})
	for method, want := range map[string]bypass{
		"tools/list": bypassKind, "prompts/list": understood, "resources/list": understood,
		"resources/templates/list": bypassKind, "server/discover": bypassKind,
	} {
		if _, reason := f.question(t, modernRequest(method, "")); reason != want {
			t.Errorf("%s: got %q, want %q", method, reason, want)
		}
	}
	// Single resources go with their lists.
	if _, reason := f.question(t, reading(revision.V20260728, `"a"`)); reason != understood {
		t.Errorf("resources/read: got %q", reason)
	}
	f = newFace(t, config{Kinds: []string{"tools"}})
	if _, reason := f.question(t, reading(revision.V20260728, `"a"`)); reason != bypassKind {
		t.Errorf("resources/read without resources: got %q", reason)
	}
}

// Without the header, a server assumes 2025-03-26.
func TestNoRevisionIsTheOldest(t *testing.T) {
	f := newFace(t, config{})
	r := legacyRequest(revision.V20250326, "session", "tools/list")
	r.Header.Del("Mcp-Protocol-Version")
	x, reason := f.question(t, r)
	if reason != understood || x.question.revision != revision.V20250326 {
		t.Errorf("got %q, revision %v", reason, x.question.revision)
	}
	// A method header that says the same is no harm, even if the era has none.
	for _, r := range legacyRevisions {
		req := legacyRequest(r, "session", "tools/list")
		req.Header.Set("Mcp-Method", "tools/list")
		if _, reason := f.question(t, req); reason != understood {
			t.Errorf("%v: got %q", r, reason)
		}
	}
}

// A request that is forwarded for its method is not held up by its body.
func TestBodyOfOtherMethodsIsNotRead(t *testing.T) {
	f := newFace(t, config{})
	r := modernRequest("tools/call", `"name":"x"`)
	body, writer := io.Pipe()
	defer writer.Close()
	r.Body, r.ContentLength = body, -1
	if _, reason := f.question(t, r); reason != bypassMethod {
		t.Errorf("got %q", reason)
	}
}
