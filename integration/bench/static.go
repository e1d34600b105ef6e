package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

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
