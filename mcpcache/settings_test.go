package mcpcache

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	feedclient "github.com/caddy-mcp/mcp-cache/mcpcache/internal/client"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/feed"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

func duration(d time.Duration) *caddy.Duration { return (*caddy.Duration)(&d) }

// settingsOf returns a handler's settings.
func settingsOf(tb testing.TB, h *Handler) *settings {
	tb.Helper()
	s, err := h.options().newSettings()
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func TestDefaults(t *testing.T) {
	s := settingsOf(t, &Handler{})
	all := revision.SetOf(revision.Tools, revision.Prompts, revision.Resources, revision.ResourceTemplates, revision.Discover)
	for name, c := range map[string]struct{ got, want any }{
		"endpoint":           {s.exchange.Path, "/mcp"},
		"kinds":              {s.backend.Kinds, all},
		"stale_if_error":     {s.backend.Stale.IfError, 24 * time.Hour},
		"stale_after_notice": {s.backend.Stale.AfterNotice, false},
		"gate":               {s.backend.Gate, 2 * time.Second},
		"admit":              {s.backend.AdmitAll, false},
		"admit_for":          {s.backend.AdmitFor, 5 * time.Minute},
		"partition":          {len(s.partition), 0},
		"origins":            {s.exchange.Origins.Allows("https://app.example.com"), false},
		"max_request":        {s.exchange.MaxRequest, int64(64 << 10)},
		"max_call":           {s.exchange.MaxCall, int64(4 << 20)},
		"memory":             {s.backend.Memory, int64(64 << 20)},
		"name":               {s.exchange.Name, "mcp_cache"},
		"feed": {s.backend.Feed, feed.Policy{
			Kinds: all, Times: feed.Times{TTL: 5 * time.Minute, MaxTTL: 24 * time.Hour}, Refresh: time.Second,
			Policy: feedclient.Policy{MaxList: 32 << 20, MaxPages: 1000},
		}},
	} {
		if !reflect.DeepEqual(c.got, c.want) {
			t.Errorf("%s: got %v, want %v", name, c.got, c.want)
		}
	}
}

func TestSettings(t *testing.T) {
	s := settingsOf(t, &Handler{
		SharedOptions:    SharedOptions{Endpoint: "/api/mcp", MaxList: 6, Name: strings.Repeat("a", 64)},
		ServerOptions:    ServerOptions{Kinds: []string{"tools", "discover"}, TTL: 1, MaxTTL: 2, StaleIfError: duration(0), StaleAfterNotice: true, Scope: "public", Refresh: 4, MaxPages: 7, ClientName: "trusted"},
		EndpointOptions:  EndpointOptions{Gate: duration(0), Admit: "upstream", AdmitFor: 3, Origins: []string{"https://app.example.com"}, MaxRequest: 5, MaxCall: 6, Memory: 1 << 20},
		OneServerOptions: OneServerOptions{Partition: []string{"{a}"}},
	})
	kinds := revision.SetOf(revision.Tools, revision.Discover)
	for name, c := range map[string]struct{ got, want any }{
		"endpoint":           {s.exchange.Path, "/api/mcp"},
		"kinds":              {s.backend.Kinds, kinds},
		"stale_if_error":     {s.backend.Stale.IfError, time.Duration(0)},
		"stale_after_notice": {s.backend.Stale.AfterNotice, true},
		"gate":               {s.backend.Gate, time.Duration(0)},
		"admit_for":          {s.backend.AdmitFor, time.Duration(3)},
		"partition":          {s.partition, []string{"{a}"}},
		"origins":            {s.exchange.Origins.Allows("https://app.example.com"), true},
		"max_request":        {s.exchange.MaxRequest, int64(5)},
		"max_call":           {s.exchange.MaxCall, int64(6)},
		"memory":             {s.backend.Memory, int64(1 << 20)},
		"name":               {s.exchange.Name, strings.Repeat("a", 64)},
		"feed":               {s.backend.Feed, feed.Policy{Kinds: kinds, Times: feed.Times{TTL: 1, MaxTTL: 2}, Refresh: 4, Policy: feedclient.Policy{MaxList: 6, MaxPages: 7, Name: "trusted"}, PublicByDefault: true}},
	} {
		if !reflect.DeepEqual(c.got, c.want) {
			t.Errorf("%s: got %v, want %v", name, c.got, c.want)
		}
	}
	if !settingsOf(t, &Handler{EndpointOptions: EndpointOptions{Admit: "all"}}).backend.AdmitAll {
		t.Error("admit all admits not all")
	}
}

// TestMaxCall has requests be as long as there is memory for, without max_call, and as
// what is looked into anyway.
func TestMaxCall(t *testing.T) {
	for _, c := range []struct {
		h    Handler
		want int64
	}{
		{Handler{EndpointOptions: EndpointOptions{Memory: 16 << 20}}, 1 << 20},
		{Handler{EndpointOptions: EndpointOptions{Memory: 1 << 20}}, 64 << 10},
		{Handler{EndpointOptions: EndpointOptions{Memory: 1 << 30}}, 4 << 20},
		{Handler{EndpointOptions: EndpointOptions{Memory: 1 << 20, MaxRequest: 100 << 10}}, 100 << 10},
		{Handler{EndpointOptions: EndpointOptions{MaxRequest: 8 << 20}}, 8 << 20},
		{Handler{EndpointOptions: EndpointOptions{MaxRequest: 8 << 20, MaxCall: 8 << 20}}, 8 << 20},
		{Handler{EndpointOptions: EndpointOptions{MaxCall: 1 << 20, Memory: 16 << 20}}, 1 << 20},
		{Handler{EndpointOptions: EndpointOptions{MaxCall: 64 << 10}}, 64 << 10},
	} {
		if got := settingsOf(t, &c.h).exchange.MaxCall; got != c.want {
			t.Errorf("max_call is %d, want %d", got, c.want)
		}
	}
}

func byKind(kind string, d caddy.Duration) map[string]caddy.Duration {
	return map[string]caddy.Duration{kind: d}
}

// TestTimes reads how long lists are fresh, for all kinds and for single ones.
func TestTimes(t *testing.T) {
	s := settingsOf(t, &Handler{ServerOptions: ServerOptions{TTL: 10, MinTTL: 5, MaxTTL: 100, TTLByKind: byKind("tools", 20), MinTTLByKind: byKind("tools", 15), MaxTTLByKind: byKind("resources", 50)}})
	for _, c := range []struct {
		kind  revision.Kind
		ttl   time.Duration
		given bool
		want  time.Duration
	}{
		{revision.Tools, 0, false, 20}, {revision.Tools, 0, true, 15}, {revision.Tools, 16, true, 16}, {revision.Tools, 1000, true, 100},
		{revision.Prompts, 0, false, 10}, {revision.Prompts, 0, true, 5}, {revision.Discover, -1, true, 5},
		{revision.Resources, 1000, true, 50}, {revision.ResourceTemplates, 1000, true, 100},
		{revision.Reads, 0, true, 0}, {revision.Reads, 4, true, 4}, {revision.Reads, 1000, true, 50},
	} {
		if got := s.backend.Feed.Lifetime(c.kind, c.ttl, c.given); got != c.want {
			t.Errorf("%s with ttlMs %d (given: %v) is fresh for %d, want %d", c.kind, c.ttl, c.given, got, c.want)
		}
	}
	if s := settingsOf(t, &Handler{ServerOptions: ServerOptions{MinTTL: 5, MaxTTL: 5}}); s.backend.Feed.Lifetime(revision.Tools, 9, true) != 5 {
		t.Error("a min_ttl as long as max_ttl is not both")
	}
}

// TestBadSettings has a value out of the range of each option: the error begins
// with the option's name and says what is allowed.
func TestBadSettings(t *testing.T) {
	for name, c := range map[string]struct {
		h    *Handler
		want string // the beginning of the error
		says string
	}{
		"relative endpoint":      {&Handler{SharedOptions: SharedOptions{Endpoint: "mcp"}}, "endpoint: ", `"mcp"`},
		"endpoint and query":     {&Handler{SharedOptions: SharedOptions{Endpoint: "/mcp?x"}}, "endpoint: ", "without query"},
		"endpoint, fragment":     {&Handler{SharedOptions: SharedOptions{Endpoint: "/mcp#x"}}, "endpoint: ", "fragment"},
		"endpoint placeholder":   {&Handler{SharedOptions: SharedOptions{Endpoint: "/{path}"}}, "endpoint: ", "placeholders"},
		"endpoint and space":     {&Handler{SharedOptions: SharedOptions{Endpoint: "/m cp"}}, "endpoint: ", "absolute path"},
		"unknown kind":           {&Handler{ServerOptions: ServerOptions{Kinds: []string{"tools", "reads"}}}, `kinds: "reads"`, "tools, prompts, resources, resource_templates, discover"},
		"kind's method":          {&Handler{ServerOptions: ServerOptions{Kinds: []string{"tools/list"}}}, "kinds: ", "tools"},
		"empty kind":             {&Handler{ServerOptions: ServerOptions{Kinds: []string{""}}}, "kinds: ", "tools"},
		"negative ttl":           {&Handler{ServerOptions: ServerOptions{TTL: -1}}, "ttl: ", "at least 1ns"},
		"negative max_ttl":       {&Handler{ServerOptions: ServerOptions{MaxTTL: -1}}, "max_ttl: ", "at least 1ns"},
		"ttl of no kind":         {&Handler{ServerOptions: ServerOptions{TTLByKind: byKind("reads", 1)}}, `ttl_by_kind: "reads"`, "tools, prompts, resources, resource_templates, discover"},
		"negative ttl of a kind": {&Handler{ServerOptions: ServerOptions{TTLByKind: byKind("tools", -1)}}, "ttl_by_kind: tools: ", "at least 1ns"},
		"no ttl of a kind":       {&Handler{ServerOptions: ServerOptions{TTLByKind: byKind("tools", 0)}}, "ttl_by_kind: tools: ", "at least 1ns"},
		"negative min_ttl":       {&Handler{ServerOptions: ServerOptions{MinTTL: -1}}, "min_ttl: ", "at least 1ns"},
		"long min_ttl":           {&Handler{ServerOptions: ServerOptions{MinTTL: caddy.Duration(24*time.Hour + 1)}}, "min_ttl: ", "longer than their max_ttl of 24h"},
		"min_ttl over max_ttl":   {&Handler{ServerOptions: ServerOptions{MinTTL: 3, MaxTTL: 2}}, "min_ttl: 3ns of tools", "max_ttl of 2ns"},
		"a kind's over max_ttl":  {&Handler{ServerOptions: ServerOptions{MinTTLByKind: byKind("prompts", 3), MaxTTL: 2}}, "min_ttl: 3ns of prompts", "max_ttl of 2ns"},
		"over a kind's max_ttl":  {&Handler{ServerOptions: ServerOptions{MinTTL: 3, MaxTTLByKind: byKind("discover", 2)}}, "min_ttl: 3ns of discover", "max_ttl of 2ns"},
		"unknown era":            {&Handler{ServerOptions: ServerOptions{Eras: []string{"legcay"}}}, `eras: "legcay" is not one of legacy, modern (did you mean legacy?)`, ""},
		"era of a revision":      {&Handler{ServerOptions: ServerOptions{Eras: []string{"2025-11-25"}}}, `eras: "2025-11-25"`, "legacy, modern"},
		"an era twice":           {&Handler{ServerOptions: ServerOptions{Eras: []string{"modern", "modern"}}}, `eras: "modern" is named twice`, "legacy, modern"},
		"always private":         {&Handler{ServerOptions: ServerOptions{ScopeAlways: true, Scope: "private"}}, "scope_always: ", `scope "public"`},
		"always nothing":         {&Handler{ServerOptions: ServerOptions{ScopeAlways: true}}, "scope_always: ", `scope "public"`},
		"negative refresh":       {&Handler{ServerOptions: ServerOptions{Refresh: -1}}, "refresh: ", "at least 1ns"},
		"negative admit_for":     {&Handler{EndpointOptions: EndpointOptions{AdmitFor: -1}}, "admit_for: ", "at least 1ns"},
		"negative gate":          {&Handler{EndpointOptions: EndpointOptions{Gate: duration(-1)}}, "gate: ", "at least 0s"},
		"negative stale":         {&Handler{ServerOptions: ServerOptions{StaleIfError: duration(-1)}}, "stale_if_error: ", "at least 0s"},
		"an age of admission":    {&Handler{EndpointOptions: EndpointOptions{AdmitFor: caddy.Duration(longest + 1)}}, "admit_for: ", "at most 87600h"},
		"negative max_request":   {&Handler{EndpointOptions: EndpointOptions{MaxRequest: -1}}, "max_request: ", "at least 1"},
		"negative max_call":      {&Handler{EndpointOptions: EndpointOptions{MaxCall: -1}}, "max_call: ", "at least 65536"},
		"little max_call":        {&Handler{EndpointOptions: EndpointOptions{MaxCall: 99, MaxRequest: 100}}, "max_call: ", "at least 100"},
		"max_call over memory":   {&Handler{EndpointOptions: EndpointOptions{MaxCall: 1<<20 + 1, Memory: 16 << 20}}, "max_call: ", "at most 1048576, a sixteenth of the memory: set memory to 17MiB (17825792) or more"},
		"twice max_call":         {&Handler{EndpointOptions: EndpointOptions{MaxCall: 8 << 20}}, "max_call: ", "at most 4194304, a sixteenth of the memory: set memory to 128MiB (134217728) or more"},
		"endless max_call":       {&Handler{EndpointOptions: EndpointOptions{MaxCall: math.MaxInt64, Memory: 16 << 20}}, "max_call: ", "a sixteenth of the memory"},
		"negative max_list":      {&Handler{SharedOptions: SharedOptions{MaxList: -1}}, "max_list: ", "at least 1"},
		"negative max_pages":     {&Handler{ServerOptions: ServerOptions{MaxPages: -1}}, "max_pages: ", "at least 1"},
		"little memory":          {&Handler{EndpointOptions: EndpointOptions{Memory: 1<<20 - 1}}, "memory: ", "at least 1048576"},
		"lowest memory":          {&Handler{EndpointOptions: EndpointOptions{Memory: math.MinInt64}}, "memory: ", "at least 1048576"},
		"unknown scope":          {&Handler{ServerOptions: ServerOptions{Scope: "shared"}}, `scope: "shared"`, "private, public"},
		"scope in capitals":      {&Handler{ServerOptions: ServerOptions{Scope: "Public"}}, "scope: ", "private, public"},
		"unknown admit":          {&Handler{EndpointOptions: EndpointOptions{Admit: "none"}}, `admit: "none"`, "upstream, all"},
		"admit all for a time":   {&Handler{EndpointOptions: EndpointOptions{Admit: "all", AdmitFor: 1}}, "admit_for: ", "upstream"},
		"origin with a path":     {&Handler{EndpointOptions: EndpointOptions{Origins: []string{"https://app.example.com/"}}}, "origins: ", "scheme://host[:port]"},
		"long name":              {&Handler{SharedOptions: SharedOptions{Name: strings.Repeat("a", 65)}}, "name: ", "1 to 64"},
		"name with a slash":      {&Handler{SharedOptions: SharedOptions{Name: "a/b"}}, "name: ", "letters, digits"},
		"name with a space":      {&Handler{SharedOptions: SharedOptions{Name: "a b"}}, "name: ", "letters, digits"},
		"name with a break":      {&Handler{SharedOptions: SharedOptions{Name: "a\n"}}, "name: ", "letters, digits"},
		"name of another tongue": {&Handler{SharedOptions: SharedOptions{Name: "né"}}, "name: ", "letters, digits"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.h.options().newSettings()
			if err == nil || !strings.HasPrefix(err.Error(), c.want) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got error %v, want one that begins with %q and says %q", err, c.want, c.says)
			}
		})
	}
}

func TestBadHost(t *testing.T) {
	for _, bad := range []string{" ", "a b", "http://a", "a/b", "a:b", "a:123456", "::1", "[::1", "user@a", "{env.HOST}", "a,b", "é", strings.Repeat("a", 254)} {
		h := Handler{ServerOptions: ServerOptions{Host: bad}}
		if _, err := h.options().newSettings(); err == nil || !strings.HasPrefix(err.Error(), "host: ") {
			t.Errorf("%q: got error %v", bad, err)
		}
	}
	for _, good := range []string{"a", "mcp.example.com", "mcp.example.com:8443", "127.0.0.1:1", "[::1]", "[::1]:8080", "a_b-c"} {
		h := Handler{ServerOptions: ServerOptions{Host: good}}
		if _, err := h.options().newSettings(); err != nil {
			t.Errorf("%q: got error %v", good, err)
		}
	}
}
