package identity

import (
	"fmt"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
)

// What an operator calls harmless tells nobody apart, however it is spelled;
// everything else still does.
func TestHarmlessOption(t *testing.T) {
	named, err := ParseHeaders([]string{"x-conversation-id", "Forwarded"})
	if err != nil {
		t.Fatal(err)
	}
	f := rules()
	f.Harmless = named
	r := request()
	r.Header.Set("X-Conversation-Id", "a")
	r.Header.Set("Forwarded", "for=192.0.2.1")
	if f.Of(r, nil) != cache.Anonymous {
		t.Error("a header that was named makes another context")
	}
	r.Header.Set("X-Conversation", "a")
	if f.Of(r, nil).IsAnonymous() {
		t.Error("a header that was not named makes no other context")
	}
}

func TestBadHarmless(t *testing.T) {
	for _, bad := range []string{
		"authorization", "Cookie", "proxy-authorization", "DPoP", "X-API-Key", "X-Forwarded-User", "X-Forwarded-Access-Token",
		"Cf-Access-Jwt-Assertion", "X-Amzn-Oidc-Data", "X-Forwarded-Client-Cert", "X-Ms-Client-Principal", "X-Auth-Request-Email",
		"X-Goog-Authenticated-User-Email", "", "a b", "X-A:", "é", "Cookie:", "Cookie:a=b", "Cookie:a b", "Cookie: a", "Cookie:*", "X-*", "Authorization:a",
	} {
		if _, err := ParseHeaders([]string{"X-Fine", bad}); err == nil || !strings.HasPrefix(err.Error(), "harmless: ") {
			t.Errorf("%q: got error %v", bad, err)
		}
	}
}

// Cookies of a load balancer tell nobody apart if they are named; all others do.
func TestHarmlessCookies(t *testing.T) {
	named, err := ParseHeaders([]string{"cookie:AWSALB", "Cookie:AWSALBCORS"})
	if err != nil {
		t.Fatal(err)
	}
	f := rules()
	f.Harmless = named
	of := func(cookies string) cache.Partition {
		r := request()
		r.Header.Set("Cookie", cookies)
		return f.Of(r, nil)
	}
	for _, cookies := range []string{"AWSALB=1", "AWSALB=2; AWSALBCORS=x=y", " AWSALBCORS ; AWSALB=", "AWSALB", "AWSALB=a+/b=="} {
		if of(cookies) != cache.Anonymous {
			t.Errorf("%q makes another context", cookies)
		}
	}
	user := of("AWSALB=1; user=a")
	if user.IsAnonymous() || user != of("user=a; AWSALB=2") || user == of("user=b; AWSALB=1") || user == of("user=a; awsalb=1") {
		t.Error("a cookie that was not named does not make a context of its own")
	}
	for _, cookies := range []string{"AWSALB=1, user=%s", "AWSALB=1 user=%s", "AWSALB=1\tuser=%s", `AWSALB="1; user=%s"`, `AWSALB="1" user=%s`, `AWSALB=\%s`} {
		if a := of(fmt.Sprintf(cookies, "a")); a.IsAnonymous() || a == of(fmt.Sprintf(cookies, "b")) {
			t.Errorf("%q is left out, and servers may read another cookie in it", cookies)
		}
	}
	if of("user=AWSALB=1").IsAnonymous() || of("xAWSALB=1").IsAnonymous() || of("user=a,AWSALB=1") == of("user=a") {
		t.Error("a cookie of another name is left out")
	}
}

// Of baggage, what tracers keep in it tells nobody apart; the rest does.
func TestBaggage(t *testing.T) {
	f := rules()
	of := func(values ...string) cache.Partition {
		r := request()
		r.Header[baggage] = values
		return f.Of(r, nil)
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
