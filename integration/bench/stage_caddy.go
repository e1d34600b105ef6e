package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// caddyProcess is a Caddy with all sites.
type caddyProcess struct {
	*process

	addrs map[string]string // by site
}

// Kinds of a Caddy.
const (
	plain       = "caddy-plain"
	withMetrics = "caddy-metrics"
)

// sites of every Caddy.
const (
	siteHit       = "hit"
	siteStatic    = "static"
	siteRespond   = "respond"
	siteEncode    = "encode"
	siteProxy     = "proxy"
	siteHitLog    = "hit-log"
	siteStaticLog = "static-log"
	siteChanging  = "changing"
	siteHostKept  = "host-kept"
)

// caddy starts a Caddy of a kind, once.
func (s *stage) caddy(ctx context.Context, kind string) (*caddyProcess, error) {
	if c := s.caddies[kind]; c != nil {
		return c, nil
	}
	if err := s.failed[kind]; err != nil {
		return nil, err
	}
	c, err := s.startCaddy(ctx, kind)
	if err != nil {
		s.failed[kind] = err
		return nil, err
	}
	s.caddies[kind] = c
	return c, nil
}

func (s *stage) startCaddy(ctx context.Context, kind string) (*caddyProcess, error) {
	_, upstream, err := s.upstream(ctx)
	if err != nil {
		return nil, err
	}
	_, changing, err := s.server(ctx, "changing upstream", "upstream", s.cores.upstream)
	if err != nil {
		return nil, err
	}
	body := filepath.Join(s.folder, "body.json")
	if err := os.WriteFile(body, []byte(s.body()), 0o600); err != nil {
		return nil, fmt.Errorf("writing body: %w", err)
	}
	c := &caddyProcess{addrs: make(map[string]string)}
	var sites []site
	for name, body := range siteBodies(upstream, changing, body, s.body()) {
		addr, err := s.ports.free()
		if err != nil {
			return nil, err
		}
		c.addrs[name] = addr
		sites = append(sites, site{addr, body})
	}
	more := ""
	if kind == withMetrics {
		more = "\tmetrics\n"
	}
	folder := filepath.Join(s.folder, kind)
	if err := os.Mkdir(folder, 0o700); err != nil {
		return nil, fmt.Errorf("making a folder: %w", err)
	}
	file := filepath.Join(folder, "Caddyfile")
	if err := os.WriteFile(file, caddyfile(filepath.Join(folder, "storage"), sites, more), 0o600); err != nil {
		return nil, fmt.Errorf("writing Caddyfile: %w", err)
	}
	c.process, _, err = s.once(kind, func(string) (*process, error) {
		return start(ctx, s.cores.server, "caddy", file)
	})
	return c, err
}

// siteBodies returns what the block of each site holds, for two upstreams and a
// body, which is also in a file.
func siteBodies(upstream, changing, file, body string) map[string]string {
	const log = "log {\n\toutput discard\n}\n"
	hit := "mcp_cache http://" + upstream + "/mcp"
	static := "bench_static * " + file // a path alone is a matcher
	return map[string]string{
		siteHit:       hit,
		siteStatic:    static,
		siteRespond:   "respond <<BODY\n" + body + "\nBODY 200",
		siteEncode:    "encode zstd gzip\n" + hit + " {\n\tprecompress off\n}",
		siteProxy:     "reverse_proxy " + upstream,
		siteHitLog:    log + hit,
		siteStaticLog: log + static,
		siteHostKept:  "mcp_cache {\n\treverse_proxy " + upstream + "\n}",
		siteChanging:  "mcp_cache http://" + changing + "/mcp {\n\trefresh 10ms\n}",
	}
}
