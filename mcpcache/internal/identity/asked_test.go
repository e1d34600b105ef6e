package identity

import (
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
)

// TestPublicIsAboutWhoAsks has requests with credentials be given what everybody is, and
// requests that ask for something else be given what all are who ask the same.
func TestPublicIsAboutWhoAsks(t *testing.T) {
	f := rules("{test.one}", "{test.two}")
	seen := make(map[cache.Partition]string)
	for name, c := range callers() {
		own := f.Of(c.r, c.values)
		who := name == "nobody" || c.r.TLS != nil || c.values["http.auth.user.id"] != ""
		for header := range c.r.Header {
			who = who || saysWho(header)
		}
		if own.AsksLikeFeed() != who || cache.Public.Admits(own) != who || !own.Everybody().Admits(own) {
			t.Errorf("%s: the context is %v", name, own)
		}
		with := c.r.Clone(t.Context())
		with.Header.Add("Authorization", "Bearer of another")
		other := f.Of(with, c.values)
		if other == own || other.Everybody() != own.Everybody() {
			t.Errorf("%s: with another credential, everybody is %v instead of %v", name, other.Everybody(), own.Everybody())
		}
		if same := seen[own.Everybody()]; same != "" && !who {
			t.Errorf("%s asks for the same as %s", name, same)
		}
		seen[own.Everybody()] = name
	}
}

// TestFeedsValues compares values with those of the feed's requests: with the same, a request
// asks for the same.
func TestFeedsValues(t *testing.T) {
	f := rules("{test.one}")
	f.Telling = []string{"test.two"}
	f.FeedValues = map[string]string{"{test.one}": "feed", "test.two": "feed"}
	for _, c := range []struct {
		one, two string
		same     bool
	}{{"feed", "feed", true}, {"", "feed", false}, {"feed", "", false}, {"other", "feed", false}, {"feed", "other", false}} {
		if got := f.Of(request(), values{"test.one": c.one, "test.two": c.two}); got.AsksLikeFeed() != c.same || got == cache.Anonymous {
			t.Errorf("%q and %q: the context is %v", c.one, c.two, got)
		}
	}
}

// TestMessagesOnly has a server that receives only messages: nothing but partition keeps
// public lists apart, and private ones stay apart by everything.
func TestMessagesOnly(t *testing.T) {
	f := rules("{test.one}", "{test.two}")
	f.MessagesOnly = true
	seen := make(map[cache.Partition]string)
	for name, c := range callers() {
		own := f.Of(c.r, c.values)
		if same := c.values["test.one"] == "" && c.values["test.two"] == ""; own.AsksLikeFeed() != same {
			t.Errorf("%s: the context is %v", name, own)
		}
		if other, twice := seen[own]; twice {
			t.Errorf("%s and %s have one context", name, other)
		}
		seen[own] = name
		if _, ok := f.Request(c.r, c.values); ok {
			t.Errorf("%s: the feed would ask a program for something else", name)
		}
	}
}

// TestRequestWithoutCredentials has the feed ask for the same as a request: it repeats what
// the server sees of it, and no credential.
func TestRequestWithoutCredentials(t *testing.T) {
	f := rules()
	f.Host = "feed.example"
	r := request()
	r.Host, r.URL.RawQuery = "a.example", "toolsets=a"
	for _, name := range []string{"Authorization", "Cookie", "X-Api-Key", "X-Session-Id", "Mcp-Session-Id", "User-Agent", "X-MCP-Toolsets"} {
		r.Header[http.CanonicalHeaderKey(name)] = []string{"of the caller"}
	}
	asked, ok := f.Request(r, nil)
	if !ok || asked.Host != "a.example" || asked.Query != "toolsets=a" || len(asked.Header) != 1 || asked.Header.Get("X-Mcp-Toolsets") != "of the caller" {
		t.Errorf("the feed asks %v, %t", asked, ok)
	}
	for placeholder, can := range map[string]bool{
		"http.request.header.User-Agent": true, "http.request.host": true, "http.request.host.labels.1": true,
		"http.request.uri.query.a": true, "http.request.uri.query": true,
		"http.request.header.Authorization": false, "http.request.header.x-api-key": false, "http.request.cookie.a": false,
		"http.vars.tenant": false, "http.auth.user.id": false, "http.request.remote.host": false,
	} {
		for _, f := range []*Rules{rules("{" + placeholder + "}"), {Telling: []string{placeholder}}} {
			asked, ok := f.Request(r, values{placeholder: "a"})
			if ok != can {
				t.Errorf("%s: that the feed can ask the same is %t", placeholder, ok)
			}
			for name, sent := range asked.Header {
				if saysWho(name) {
					t.Errorf("%s: the feed sends %s: %s", placeholder, name, strings.Join(sent, ", "))
				}
			}
		}
	}
	for query, can := range map[string]bool{
		"toolsets=a&readonly=1": true, "a": true, "token=a": false, "b=1&apiKey=a": false, "x_auth=a": false, "t=e30.eyJleHAiOjV9.c": false, "a;b": false,
	} {
		r := request()
		r.URL.RawQuery = query
		if _, ok := rules().Request(r, nil); ok != can {
			t.Errorf("%s: that the feed can ask the same is %t", query, ok)
		}
	}
	r.Header.Set("X-Tenant", "a")
	if _, ok := rules().Request(r, nil); ok {
		t.Error("the feed repeats a header that may be a credential")
	}
	named := rules("{http.request.header.X-Tenant}")
	if asked, ok := named.Request(r, values{"http.request.header.X-Tenant": "a"}); !ok || asked.Header.Get("X-Tenant") != "a" {
		t.Errorf("with the header in partition, the feed asks %v, %t", asked, ok)
	}
	f = &Rules{Original: true}
	if _, ok := f.Request(r, values{originalPlaceholder: "/other"}); ok {
		t.Error("the feed can ask for a URI from before a rewrite")
	}
}

// TestFieldsThatAreSent does the same for what a server of several receives.
func TestFieldsThatAreSent(t *testing.T) {
	f := rules()
	plain := f.OfFields(http.Header{"Authorization": {"a"}}, false)
	tools := f.OfFields(http.Header{"Authorization": {"a"}, "X-Tools": {"1"}}, false)
	others := f.OfFields(http.Header{"X-Tools": {"1"}}, true)
	more := f.OfFields(http.Header{"X-Tools": {"2"}}, false)
	if !plain.AsksLikeFeed() || tools.AsksLikeFeed() || tools.Everybody() != others.Everybody() || more.Everybody() == tools.Everybody() {
		t.Errorf("the contexts are %v, %v, %v, %v", plain, tools, others, more)
	}
}
