package mcpcache

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
)

// What an operator calls harmless tells nobody apart, however it is spelled;
// everything else still does.
func TestHarmlessOption(t *testing.T) {
	f := newFace(t, &Handler{Harmless: []string{"x-conversation-id", "Forwarded"}})
	r := modernRequest("tools/list", "")
	r.Header.Set("X-Conversation-Id", "a")
	r.Header.Set("Forwarded", "for=192.0.2.1")
	if f.contextOf(r, nil) != cache.Anonymous {
		t.Error("a header that was named makes another context")
	}
	r.Header.Set("X-Conversation", "a")
	if f.contextOf(r, nil).IsAnonymous() {
		t.Error("a header that was not named makes no other context")
	}
}

func TestBadHarmless(t *testing.T) {
	for _, bad := range []string{
		"authorization", "Cookie", "proxy-authorization", "DPoP", "X-API-Key", "X-Forwarded-User", "X-Forwarded-Access-Token",
		"Cf-Access-Jwt-Assertion", "X-Amzn-Oidc-Data", "X-Forwarded-Client-Cert", "X-Ms-Client-Principal", "X-Auth-Request-Email",
		"X-Goog-Authenticated-User-Email", "", "a b", "X-A:", "é",
	} {
		h := Handler{Harmless: []string{"X-Fine", bad}}
		if _, err := h.newSettings(); err == nil || !strings.HasPrefix(err.Error(), "harmless: ") {
			t.Errorf("%q: got error %v", bad, err)
		}
	}
}

// Of baggage, what tracers keep in it tells nobody apart; the rest does.
func TestBaggage(t *testing.T) {
	f := newFace(t, &Handler{})
	of := func(values ...string) cache.Partition {
		r := modernRequest("tools/list", "")
		r.Header[baggage] = values
		return f.contextOf(r, nil)
	}
	for _, values := range [][]string{
		{""}, {"sentry-trace_id=1,sentry-release=a"}, {"sentry-trace_id=2"}, {" sentry-a=1 , langsmith-metadata=%7B%7D,"}, {"sentry-a=1", "langsmith-tags=b"},
	} {
		if of(values...) != cache.Anonymous {
			t.Errorf("%q makes another context", values)
		}
	}
	a := of("tenant=a,sentry-trace_id=1")
	if a.IsAnonymous() || a != of("sentry-trace_id=2, tenant=a") || a == of("tenant=b") || a == of("xsentry-tenant=a") {
		t.Error("a tenant's baggage does not make a context of its own")
	}
}

// However headers are spelled and ordered that are called harmless, they are the
// same ones.
func TestHarmlessIsSharedOverAReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := mustProvision(t, config("harmless", "harmless", `["X-A","X-B"]`))
		defer one.cancel()
		two := mustProvision(t, config("harmless", "harmless", `["x-b","X-a","X-B"]`))
		defer two.cancel()
		if one.shared != two.shared {
			t.Error("they do not share")
		}
	})
}
