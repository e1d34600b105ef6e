package toolkit

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-mcp/mcp-cache/mcpcache/guards"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/catalog"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/feed"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/identity"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/jsonrpc"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// Credentials says which of the caller's header fields a server receives, besides the harmless ones.
// The zero value is none.
type Credentials struct {
	// From is the field whose values become the Authorization of the server's request. It is
	// Authorization if the caller's own is passed on, and "" for none.
	From string
	// Headers are further fields that are passed on, by their canonical names.
	Headers []string
	// Guard puts its credential on the requests; nil: none does.
	Guard guards.Guard
}

// isPersonal reports whether the server may tell callers apart.
func (c *Credentials) isPersonal() bool { return c.From != "" || len(c.Headers) > 0 }

// of returns the fields of a caller's header that the server receives.
func (c *Credentials) of(h http.Header) http.Header {
	sent := make(http.Header)
	for _, name := range c.Headers {
		if values := h[name]; len(values) > 0 {
			sent[name] = slices.Clone(values)
		}
	}
	if values := h[c.From]; c.From != "" && len(values) > 0 {
		sent["Authorization"] = slices.Clone(values)
	}
	return sent
}

// callerAt returns the caller as a server sees it: the credentials that the server receives, and the
// authorization context that they stand for.
func (v *viewer) callerAt(s *Server) feed.Caller {
	if v.callers == nil {
		v.callers = make([]*feed.Caller, len(v.endpoint.servers))
	}
	known := v.callers[s.number]
	if known == nil {
		fields, guarded := s.Credentials.of(v.r.Header), s.Credentials.Guard != nil
		known = &feed.Caller{Credentials: fields, Guarded: guarded, Context: s.Identity.OfFields(fields, guarded)}
		v.callers[s.number] = known
	}
	return *known
}

// origin tells apart who share a server's places for callers. A caller whom the server has
// accepted lately is one by itself. All others at one address are one together: they may be
// one stranger with many credentials. Of IPv6 that is a network of 64 bits, which is what a
// customer has.
func (v *viewer) origin(s *Server, at revision.Revision, k revision.Kind) string {
	c := v.callerAt(s)
	if known := s.Admission.Context(c.Context, at); known != nil && known.Admitted(k, v.now) {
		return string(c.Context.Key())
	}
	client, _ := caddyhttp.GetVar(v.r.Context(), caddyhttp.ClientIPVarKey).(string)
	address, err := netip.ParseAddr(client)
	if err != nil {
		return client
	}
	if address = address.Unmap(); address.Is4() {
		return address.String()
	}
	network, _ := address.Prefix(64) // an address of IPv6 has that many bits
	return network.String()
}

// whose tells callers apart to whom servers may show different lists.
func (v *viewer) whose() []byte {
	hash := sha256.New()
	for _, s := range v.endpoint.servers {
		if s.Credentials.isPersonal() {
			hash.Write(v.callerAt(s).Context.Key())
		}
	}
	return hash.Sum(nil)
}

// lister tells callers apart who are shown different lists, by servers or by rules.
func (v *viewer) lister() catalog.Caller {
	var key []byte
	if v.endpoint.personal {
		key = v.whose()
	}
	return catalog.CallerOf(v.views.AppendKey(key))
}

// isKnown reports whether a server is sent something by which it may know the caller.
func (v *viewer) isKnown() bool {
	return v.endpoint.personal && slices.ContainsFunc(v.endpoint.servers, func(s *Server) bool {
		return len(v.callerAt(s).Credentials) > 0
	})
}

// kept are headers that are known to be harmless, and are not for the servers of a toolkit:
// they are about the page, the connection or the session that a client has here, or say
// where it is; or they ask for less than the answer as it is, which has to be read on its way.
var kept = []string{
	"Accept-Encoding", "Range", "If-None-Match", "If-Modified-Since",
	"Origin", "Referer", "Host", "Mcp-Session-Id", "Last-Event-Id", "Connection", "Keep-Alive", "Proxy-Connection",
	"Upgrade", "Te", "Trailer", "Transfer-Encoding", "Expect", "Content-Length", "X-Real-Ip", "X-Envoy-External-Address",
	"Cf-Connecting-Ip", "Cf-Ipcountry", "Cf-Visitor", "True-Client-Ip", "Fly-Client-Ip", "Via",
}

// Passes reports whether a header of a client, by its canonical name, is sent to all servers:
// it is known to be harmless, or has the mirrored arguments of a call. Whatever else a client
// sends may be a credential.
func Passes(name string) bool {
	return identity.Headers(nil).Has(name) && !slices.Contains(kept, name) && !strings.HasPrefix(name, "X-Forwarded-") ||
		strings.HasPrefix(name, "Mcp-Param-")
}

// MayPass reports whether a header of a client can be sent to a server where the operator
// wants that: not what is about the message, the connection or the session with us.
func MayPass(name string) bool {
	return name != "Proxy-Authorization" && (!identity.Headers(nil).Has(name) || slices.Contains(ofNetwork, name))
}

// ofNetwork are those of [kept] that only say where a client is.
var ofNetwork = []string{"X-Real-Ip", "X-Envoy-External-Address", "Cf-Connecting-Ip", "Cf-Ipcountry", "Cf-Visitor", "True-Client-Ip", "Fly-Client-Ip"}

// passedOn returns those fields of a client's header that every server is sent.
func passedOn(h http.Header) http.Header {
	passed := make(http.Header, len(h))
	for name, values := range h {
		if Passes(name) {
			passed[name] = slices.Clone(values)
		}
	}
	return passed
}

// authorize puts the guard's credential on a request, where the server wants it on callers'.
func (s *Server) authorize(r *http.Request) error {
	if s.Credentials.Guard == nil {
		return nil
	}
	return client.Authorize(s.Credentials.Guard, r)
}

// mayRenew reports whether the guard can try another credential, since one was refused.
func (c *call) mayRenew(status int) bool {
	_, can := c.server.Credentials.Guard.(guards.Renewer)
	return can && status == http.StatusUnauthorized && !c.renewed
}

// renew has the guard renew the credential on a request that was refused.
func (c *call) renew(r *http.Request, challenges []string) error {
	c.renewed = true
	err := client.Renew(c.r.Context(), c.server.Credentials.Guard.(guards.Renewer), r, guards.Challenge{
		Status: http.StatusUnauthorized, Endpoint: c.server.Settings.Feed.Endpoint, WWWAuthenticate: challenges,
	})
	if err != nil {
		return err
	}
	return nil
}

// refusesWhom says in plain words whom a server refuses by a 401 or 403.
func (s *Server) refusesWhom() string {
	switch {
	case s.Credentials.Guard != nil:
		return "the credential of its guard"
	case s.Credentials.isPersonal():
		return "the caller's credentials"
	}
	return "requests without credentials"
}

// refusing is the refusal of what is for a server that lets neither the caller in nor us.
func (s *Server) refusing(status int) *jsonrpc.Problem {
	return jsonrpc.Failed(http.StatusBadGateway, fmt.Sprintf("the MCP server %q refuses %s: HTTP status %d", s.Name, s.refusesWhom(), status))
}
