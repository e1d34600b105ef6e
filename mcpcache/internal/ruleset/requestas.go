package ruleset

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"golang.org/x/net/http/httpguts"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/origin"
)

const (
	// maxAs is how many values a caller may be said to have.
	maxAs = 64
	// nobody is the address of a caller of whom none is said: one of those that are
	// for documentation (RFC 5737).
	nobody = "192.0.2.1"
)

// errAs says what a caller may be said to have.
var errAs = errors.New("it has to be KEY=VALUE; KEY is header.NAME, vars.NAME, host, remote_ip, or a placeholder such as {groups} or http.auth.user.id")

// requestAs returns a request that nobody has sent, which matchers can be tried with:
// for an MCP endpoint at that path, from a caller for whom placeholders, variables and
// headers have those values, each written KEY=VALUE. It also returns which placeholders
// the matchers ask for.
func requestAs(ctx context.Context, path string, as []string) (*http.Request, *askedPlaceholders, error) {
	if len(as) > maxAs {
		return nil, nil, fmt.Errorf("there are %d values, more than %d", len(as), maxAs)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, path, http.NoBody)
	if err != nil {
		return nil, nil, err
	}
	r.RequestURI, r.Host, r.RemoteAddr = path, "localhost", net.JoinHostPort(nobody, "0")
	r.Header = http.Header{"Accept": {"application/json, text/event-stream"}, "Content-Type": {"application/json"}}
	placeholders, vars := make(map[string]string), make(map[string]string)
	for _, text := range as {
		key, value, ok := strings.Cut(text, "=")
		if !ok {
			return nil, nil, fmt.Errorf("%q: %w", text, errAs)
		}
		if err := say(r, placeholders, vars, key, value); err != nil {
			return nil, nil, fmt.Errorf("%q: %w", text, err)
		}
	}
	asked := &askedPlaceholders{said: placeholders, all: make(map[string]struct{})}
	replacer := caddy.NewReplacer()
	replacer.Map(asked.value) // before what Caddy finds in a request
	r = caddyhttp.PrepareRequest(r, replacer, nil, new(caddyhttp.Server))
	for name, value := range vars {
		caddyhttp.SetVar(r.Context(), name, value)
	}
	return r, asked, nil
}

// askedPlaceholders has the values of placeholders, and remembers which are asked for, if
// only to tell who has mistyped one.
type askedPlaceholders struct {
	said map[string]string
	mu   sync.Mutex
	all  map[string]struct{}
}

// value returns a placeholder's value, and whether it has one.
func (a *askedPlaceholders) value(name string) (any, bool) {
	a.add(name)
	value, ok := a.said[name]
	return value, ok
}

// add says that a placeholder is asked for.
func (a *askedPlaceholders) add(names ...string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, name := range names {
		a.all[name] = struct{}{}
	}
}

// unasked returns the placeholders that a caller is said to have and nobody asked for,
// and those that were asked for.
func (a *askedPlaceholders) unasked() (unasked, asked []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for name := range a.said {
		if _, ok := a.all[name]; !ok {
			unasked = append(unasked, name)
		}
	}
	slices.Sort(unasked)
	return unasked, slices.Sorted(maps.Keys(a.all))
}

// say has a key of a caller have a value.
func say(r *http.Request, placeholders, vars map[string]string, key, value string) error {
	key, braced := unbraced(key)
	name, isHeader := strings.CutPrefix(strings.TrimPrefix(key, "http.request."), "header.")
	variable, isVariable := strings.CutPrefix(strings.TrimPrefix(key, "http."), "vars.")
	switch {
	case key == "host" || isHeader && strings.EqualFold(name, "host"):
		if !origin.IsHost(value) {
			return errors.New("it is not a name or address, with or without a port")
		}
		r.Host = value
	case key == "remote_ip":
		ip, err := netip.ParseAddr(value)
		if err != nil {
			return errors.New("it is not an IP address")
		}
		r.RemoteAddr = netip.AddrPortFrom(ip, 0).String()
	case isHeader:
		if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			return errors.New("it is not a header")
		}
		r.Header.Add(name, value)
	case isVariable && variable != "":
		vars[variable] = value
	case strings.HasPrefix(key, "http.request.") && !strings.HasPrefix(key, "http.request.tls."):
		return errors.New("a request has that by itself: say header.NAME, host or remote_ip")
	case braced && key != "", strings.HasPrefix(key, "http.") && key != "http.":
		placeholders[key] = value
	default:
		return errAs
	}
	return nil
}

// unbraced returns a placeholder's name without braces, and whether it had some.
func unbraced(key string) (name string, braced bool) {
	if name, ok := strings.CutPrefix(key, "{"); ok {
		return strings.CutSuffix(name, "}")
	}
	return key, false
}
