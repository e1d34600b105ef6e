package main

import (
	"context"
	"strings"
)

// contender is one of those that take turns.
type contender struct {
	name string
	// what it is, for the table.
	what string
	// setup starts what it needs.
	setup func(context.Context, *stage) (*target, error)
}

// target is a contender that is there.
type target struct {
	addr     string
	server   *process
	upstream *process // behind the server; nil for none
	request  Request
	// bytesOnly says that the server answers everything with the same bytes.
	bytesOnly bool
}

// Names of contenders.
const (
	nameStatic        = "static"
	nameRespond       = "respond"
	nameHit           = "hit"
	nameHitGzip       = "hit-gzip"
	nameHitZstd       = "hit-zstd"
	nameEncodeGzip    = "encode-gzip"
	nameEncodeZstd    = "encode-zstd"
	nameStaticMetrics = "static-metrics"
	nameHitMetrics    = "hit-metrics"
	nameStaticLog     = "static-log"
	nameHitLog        = "hit-log"
	nameProxy         = "proxy"
	nameMCPGo         = "mcp-go"
	nameGoSDK         = "go-sdk"
	nameTypeScript    = "ts-sdk"
	nameCall          = "call"
	nameCallHostKept  = "call-host-kept"
	nameCallProxy     = "call-proxy"
	nameCallLarge     = "call-1mb"
	nameCallLargeP    = "call-1mb-proxy"
	nameFirstEvent    = "first-event"
	nameChanges       = "changes"
	nameMemory        = "memory"
)

// listContenders answer tools/list.
func listContenders() []contender {
	return []contender{
		{nameStatic, "Caddy handler that writes ready bytes", fromCaddy(plain, siteStatic, anyAnswer)},
		{nameRespond, "Caddy `respond`", fromCaddy(plain, siteRespond, anyAnswer)},
		{nameHit, "**hit**", fromCaddy(plain, siteHit, isHit(""))},
		{nameHitGzip, "**hit, gzip**", fromCaddy(plain, siteHit, isHit("gzip"), "Accept-Encoding: gzip")},
		{nameHitZstd, "**hit, zstd**", fromCaddy(plain, siteHit, isHit("zstd"), "Accept-Encoding: zstd")},
		{nameEncodeGzip, "Caddy `encode` (gzip) over a hit", fromCaddy(plain, siteEncode, isHit("gzip"), "Accept-Encoding: gzip")},
		{nameEncodeZstd, "Caddy `encode` (zstd) over a hit", fromCaddy(plain, siteEncode, isHit("zstd"), "Accept-Encoding: zstd")},
		{nameStaticMetrics, "ready bytes, `metrics` on", fromCaddy(withMetrics, siteStatic, anyAnswer)},
		{nameHitMetrics, "**hit**, `metrics` on", fromCaddy(withMetrics, siteHit, isHit(""))},
		{nameStaticLog, "ready bytes, access log (discarded)", fromCaddy(plain, siteStaticLog, anyAnswer)},
		{nameHitLog, "**hit**, access log (discarded)", fromCaddy(plain, siteHitLog, isHit(""))},
		{nameProxy, "Caddy `reverse_proxy` to a server of ready bytes", fromCaddy(plain, siteProxy, anyAnswer)},
		{nameMCPGo, "mcp-go server, direct", direct("mcp-go")},
		{nameGoSDK, "go-sdk server, direct", direct("go-sdk")},
		{nameTypeScript, "TypeScript SDK high-level server, direct", typeScript},
	}
}

// callContenders answer tools/call, by way of Caddy.
func callContenders() []contender {
	return []contender{
		{nameCallProxy, "small call, `reverse_proxy`", forward(siteProxy, 0)},
		{nameCall, "**small call, `mcp_cache`**", forward(siteHit, 0)},
		{nameCallHostKept, "**small call, `mcp_cache`**, Host left as it is", forward(siteHostKept, 0)},
		{nameCallLargeP, "1 MB call, `reverse_proxy`", forward(siteProxy, 1<<20)},
		{nameCallLarge, "**1 MB call, `mcp_cache`**", forward(siteHit, 1<<20)},
	}
}

func anyAnswer(*answer) bool { return true }

// isHit returns whether an answer came from the cache in that encoding.
func isHit(encoding string) func(*answer) bool {
	return func(a *answer) bool {
		return a != nil && a.isHit() && a.header.Get("Content-Encoding") == encoding
	}
}

// fromCaddy sets up a site of a Caddy that lists tools.
func fromCaddy(kind, site string, wanted func(*answer) bool, more ...string) func(context.Context, *stage) (*target, error) {
	return func(ctx context.Context, s *stage) (*target, error) {
		c, err := s.caddy(ctx, kind)
		if err != nil {
			return nil, err
		}
		t := target{addr: c.addrs[site], server: c.process, upstream: s.processes["upstream"]}
		switch site {
		case siteStatic, siteStaticLog, siteRespond:
			t.bytesOnly, t.upstream = true, nil
		}
		return s.listTarget(ctx, t, wanted, more...)
	}
}

// direct sets up a server of an SDK without anything in front of it.
func direct(role string) func(context.Context, *stage) (*target, error) {
	return func(ctx context.Context, s *stage) (*target, error) {
		p, addr, err := s.server(ctx, role, role, s.cores.server)
		if err != nil {
			return nil, err
		}
		return s.listTarget(ctx, target{addr: addr, server: p}, anyAnswer)
	}
}

// forward sets up a site that passes on calls of a tool with that many bytes of
// arguments.
func forward(site string, size int) func(context.Context, *stage) (*target, error) {
	return func(ctx context.Context, s *stage) (*target, error) {
		return s.callTarget(ctx, site, "echo", strings.Repeat("x", size))
	}
}

// callTarget makes a target of a site that passes on calls of a tool.
func (s *stage) callTarget(ctx context.Context, site, tool, text string) (*target, error) {
	c, err := s.caddy(ctx, plain)
	if err != nil {
		return nil, err
	}
	addr := c.addrs[site]
	from, err := s.session(ctx, addr)
	if err != nil {
		return nil, err
	}
	request := from.request(addr, "tools/call", tool, `"name":"`+tool+`","arguments":{"text":"`+text+`"}`)
	if _, err := ask(ctx, addr, request); err != nil {
		return nil, err
	}
	return &target{addr: addr, server: c.process, upstream: s.processes["upstream"], request: request}, nil
}
