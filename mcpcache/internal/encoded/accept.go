package encoded

import (
	"strings"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/encoded/splice"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/qvalue"
)

// Choose returns the content coding that a client prefers, by the values of its
// Accept-Encoding header, and the next best. Both are "" if it prefers none, and second is
// if it accepts no other.
func Choose(accepted []string) (best, second splice.Encoding) {
	return readCodings(accepted).choose()
}

// codings has the weights in an Accept-Encoding header of the content codings that we
// have, and of "identity", which is none.
type codings struct {
	zstd, gzip, identity qvalue.Value
	// any is the weight of "*", which counts for what is not named; 0 without one.
	any qvalue.Value
	// Which of them are named.
	namesZstd, namesGzip, namesIdentity bool
}

// readCodings reads the values of an Accept-Encoding header (RFC 9110 section
// 12.5.3).
func readCodings(values []string) codings {
	var c codings
	for _, value := range values {
		for part := range strings.SplitSeq(value, ",") {
			name, params, _ := strings.Cut(part, ";")
			switch name = strings.TrimSpace(name); {
			case strings.EqualFold(name, "zstd"):
				c.zstd, c.namesZstd = qvalue.In(params), true
			case strings.EqualFold(name, "gzip"), strings.EqualFold(name, "x-gzip"):
				c.gzip, c.namesGzip = qvalue.In(params), true
			case strings.EqualFold(name, "identity"):
				c.identity, c.namesIdentity = qvalue.In(params), true
			case name == "*":
				c.any = qvalue.In(params)
			}
		}
	}
	return c
}

// choose is [Choose]. Of equal weights, a coding is preferred to none, and zstd to gzip;
// but for a client that does not name zstd gzip is, which every client can read.
//
// A client that accepts neither of them nor "identity" is sent "identity" all the same, as
// by most servers: RFC 9110 leaves that open.
func (c codings) choose() (best, second splice.Encoding) {
	if !c.namesGzip {
		c.gzip = c.any
	}
	if !c.namesZstd {
		c.zstd = c.any
	}
	if !c.namesIdentity {
		c.identity = c.any
	}
	best, second = splice.Zstd, splice.Gzip
	most, next := c.zstd, c.gzip
	if next > most || next == most && !c.namesZstd {
		best, second = second, best
		most, next = next, most
	}
	if most == 0 || most < c.identity {
		return "", ""
	}
	if next == 0 || next < c.identity {
		second = ""
	}
	return best, second
}
