package main

import "strings"

// contender is one of those that take turns.
type contender struct {
	name string
	what string // for the table
	// role is what process answers, and site the block of a Caddy.
	role, site string
	// call is the tool that is called with that many bytes of arguments, "" if
	// the tools are listed.
	call string
	size int
	// encoding is what the client accepts and gets. A hit must be one.
	encoding      string
	hit           bool
	readme, short bool
}

// Names of contenders that are looked for.
const (
	ready = "static"
	hit   = "hit"
)

// Roles of processes that are told apart.
const (
	caddyRole    = "caddy"
	metricsRole  = "caddy-metrics" // one with the option metrics
	upstreamRole = "upstream"
	changingRole = "changing-upstream"

	fleetRole = "caddy-fleet" // one that shares a store with others
	redisRole = "redis"

	typeScriptRole = "ts-sdk"
	fastMCPRole    = "fastmcp"
	// fastMCPCachingRole is the same with FastMCP's own caching.
	fastMCPCachingRole = "fastmcp-caching"

	// Servers whose requests are counted.
	fastMCPServerRole = "fastmcp-server"
	goSDKSessionsRole = "go-sdk-sessions"
	programRole       = "program"
)

// Blocks of a Caddyfile: BODY is a file with a list as it is answered, UPSTREAM,
// CHANGING and REDIS are addresses. What a legacy server lists may be shared where the
// operator says so.
const (
	readySite = "bench_static * BODY"
	hitSite   = "mcp_cache http://UPSTREAM/mcp {\n\tscope public\n}"
	proxySite = "reverse_proxy UPSTREAM"
	logged    = "log {\n\toutput discard\n}\n"
)

// Tools that are called.
const (
	echoTool   = "echo"
	streamTool = "stream" // answers with two events
)

var contenders = []contender{
	{name: ready, what: "Caddy handler that writes ready bytes", role: caddyRole, site: readySite, short: true},
	{name: "respond", what: "Caddy `respond`", role: caddyRole, site: "respond <<LIST\nTEXT\nLIST 200"},
	{name: hit, what: "**hit**", role: caddyRole, site: hitSite, hit: true, readme: true, short: true},
	{name: "hit-rule", what: "**hit**, a rule for callers with a header", role: caddyRole, site: ruleSite, hit: true},
	{name: "hit-gzip", what: "**hit, gzip**", role: caddyRole, site: hitSite, hit: true, encoding: "gzip"},
	{name: "hit-zstd", what: "**hit, zstd**", role: caddyRole, site: hitSite, hit: true, encoding: "zstd", short: true},
	{name: "encode-gzip", what: "Caddy `encode` (gzip) over a hit", role: caddyRole, site: encodeSite, hit: true, encoding: "gzip"},
	{name: "encode-zstd", what: "Caddy `encode` (zstd) over a hit", role: caddyRole, site: encodeSite, hit: true, encoding: "zstd"},
	{name: "hit-changing", what: "**hit**, the list changes every 100 ms", role: caddyRole, site: strings.Replace(hitSite, "UPSTREAM", "CHANGING", 1), hit: true},
	{name: "static-metrics", what: "ready bytes, `metrics` on", role: metricsRole, site: readySite},
	{name: "hit-metrics", what: "**hit**, `metrics` on", role: metricsRole, site: hitSite, hit: true},
	{name: "static-log", what: "ready bytes, access log (discarded)", role: caddyRole, site: logged + readySite},
	{name: "hit-log", what: "**hit**, access log (discarded)", role: caddyRole, site: logged + hitSite, hit: true},
	{name: "hit-alone", what: "**hit**, in the Caddy of the next row", role: fleetRole, site: hitSite, hit: true},
	{name: "hit-fleet", what: "**hit**, `store redis`", role: fleetRole, site: fleetSite, hit: true},
	{name: "proxy", what: "Caddy `reverse_proxy` to a server of ready bytes", role: caddyRole, site: proxySite, readme: true, short: true},
	{name: "mcp-go", what: "mcp-go server, direct", role: "mcp-go", readme: true, short: true},
	{name: "go-sdk", what: "go-sdk server, direct", role: "go-sdk"},
	{name: "ts-sdk", what: "TypeScript SDK server, direct", role: typeScriptRole},
	{name: "fastmcp", what: "FastMCP proxy to a server of ready bytes", role: fastMCPRole, readme: true},
	{name: "fastmcp-caching", what: "FastMCP proxy with `ResponseCachingMiddleware`", role: fastMCPCachingRole, readme: true},

	{name: "call-proxy", what: "small call, `reverse_proxy`", role: caddyRole, site: proxySite, call: echoTool, short: true},
	{name: "call", what: "**small call, `mcp_cache`**", role: caddyRole, site: hitSite, call: echoTool, short: true},
	{name: "call-1mb-proxy", what: "1 MB call, `reverse_proxy`", role: caddyRole, site: proxySite, call: echoTool, size: 1 << 20},
	{name: "call-1mb", what: "**1 MB call, `mcp_cache`**", role: caddyRole, site: hitSite, call: echoTool, size: 1 << 20},
	{name: "stream-proxy", what: "call answered with a stream, `reverse_proxy`", role: caddyRole, site: proxySite, call: streamTool},
	{name: "stream", what: "**call answered with a stream, `mcp_cache`**", role: caddyRole, site: hitSite, call: streamTool},
}

// ruleSite lets callers see all tools by one header, which all of them have: their
// list is derived from everybody's.
var ruleSite = "@clients header Accept *event-stream*\n" + strings.Replace(hitSite, "scope", "allow @clients tools *\n\tscope", 1)

// fleetSite shares lists with other instances, and is told of changes by them. It has a feed of
// its own: one feed has one store.
var fleetSite = strings.Replace(hitSite, "scope", "client_name fleet\n\tstore redis redis://REDIS\n\tscope", 1)

var encodeSite = "encode zstd gzip\n" + strings.Replace(hitSite, "scope", "precompress off\n\tscope", 1)

// namesOf returns the names of some contenders.
func namesOf(some func(contender) bool) (names []string) {
	for _, c := range contenders {
		if some(c) {
			names = append(names, c.name)
		}
	}
	return names
}
