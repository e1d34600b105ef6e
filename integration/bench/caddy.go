package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/caddy-mcp/mcp-cache"
	_ "github.com/caddy-mcp/mcp-cache/mcpcache/stores/redis"
)

// caddyfile writes the global options of a Caddy that keeps its files in a
// folder, and more of them.
func caddyfile(folder, more string) []byte {
	return fmt.Appendf(nil, "{\n\tadmin off\n\tpersist_config off\n\tauto_https off\n\tstorage file_system %s\n"+
		"\tlog default {\n\t\toutput stderr\n\t\tlevel ERROR\n\t}\n%s}\n", folder, more)
}

// site writes a site with a listener of its own.
func site(addr, block string) string {
	_, port, _ := strings.Cut(addr, ":")
	return fmt.Sprintf("http://:%s {\n\tbind 127.0.0.1\n%s\n}\n", port, block)
}

// runCaddy runs a Caddy. Its Caddyfile says where.
func runCaddy(_ string, args []string) error {
	source, err := os.ReadFile(args[0])
	if err != nil {
		return fmt.Errorf("reading Caddyfile: %w", err)
	}
	config, _, err := caddyconfig.GetAdapter("caddyfile").Adapt(source, map[string]any{"filename": args[0]})
	if err != nil {
		return fmt.Errorf("adapting Caddyfile: %w", err)
	}
	if err := caddy.Load(config, true); err != nil {
		return fmt.Errorf("starting Caddy: %w", err)
	}
	defer func() { _ = caddy.Stop() }() // the process ends anyway
	return serveUsage()
}

func init() {
	caddy.RegisterModule(static{})
	httpcaddyfile.RegisterHandlerDirective("bench_static", parseStatic)
	httpcaddyfile.RegisterDirectiveOrder("bench_static", httpcaddyfile.Before, "respond")
}

// static answers every request with the content of a file: the least that a
// handler in Caddy can do for a request that has a body.
type static struct {
	// File is the path of the file.
	File string `json:"file"`

	body                []byte
	contentType, length []string
}

// CaddyModule implements [caddy.Module].
func (static) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.bench_static", New: func() caddy.Module { return new(static) }}
}

// Provision implements [caddy.Provisioner].
func (s *static) Provision(caddy.Context) (err error) {
	if s.body, err = os.ReadFile(s.File); err != nil {
		return fmt.Errorf("reading body: %w", err)
	}
	s.contentType = []string{"application/json"}
	s.length = []string{strconv.Itoa(len(s.body))}
	return nil
}

// ServeHTTP implements [caddyhttp.MiddlewareHandler].
func (s *static) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	// Answers that leave before the request was read get lost.
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return fmt.Errorf("reading request: %w", err)
	}
	h := w.Header()
	h["Content-Type"], h["Content-Length"] = s.contentType, s.length
	_, err := w.Write(s.body)
	return err
}

// parseStatic reads:
//
//	bench_static [<matcher>] <file>
func parseStatic(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
	s := new(static)
	h.Next() // the directive's name
	if !h.Args(&s.File) || h.NextArg() {
		return nil, h.ArgErr()
	}
	return s, nil
}
