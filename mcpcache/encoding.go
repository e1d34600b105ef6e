package mcpcache

import (
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp/encode"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/splice"
)

// offered are the content codings that there are, the better one first.
var offered = []string{string(splice.Zstd), string(splice.Gzip)}

// encoded returns the compressed forms of an entry and which of them the
// client would rather have. It returns nil if the answer has to be sent as it
// is: the client wants it so, or nothing is there yet.
func (x *exchange) encoded(e *cache.Entry, framing cache.Framing) (*splice.Encoded, splice.Encoding) {
	if !x.compressible(e) {
		return nil, ""
	}
	accepted := x.r.Header["Accept-Encoding"]
	if len(accepted) == 0 || len(accepted) == 1 && accepted[0] == "identity" {
		return nil, ""
	}
	return choose(x.r, func() *splice.Encoded { return x.h.shared.cache.Encoded(e, framing, x.now) })
}

// compressible reports whether answers of the entry differ with what the
// client accepts.
func (x *exchange) compressible(e *cache.Entry) bool {
	return x.h.settings.precompress && e.Size() >= cache.LeastEncoded
}

// choose returns the form that the client prefers (RFC 9110 section 12.5.3).
// Forms are asked for only if the client accepts one.
func choose(r *http.Request, forms func() *splice.Encoded) (*splice.Encoded, splice.Encoding) {
	var encoded *splice.Encoded
	for _, name := range encode.AcceptedEncodings(r, offered) {
		switch coding := splice.Encoding(name); coding {
		case splice.Zstd, splice.Gzip:
			if encoded == nil {
				if encoded = forms(); encoded == nil {
					return nil, ""
				}
			}
			if encoded.Has(coding) {
				return encoded, coding
			}
		case "identity":
			return nil, ""
		}
	}
	return nil, ""
}
