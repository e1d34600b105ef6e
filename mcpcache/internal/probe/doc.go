// Package probe asks an MCP server what it lets a cache do, as a client of either era would ask.
// It finds out which revisions the server speaks, which lists it gives to whom, how long they may
// be kept, and whether it announces changes. A [Report] has the findings, their cost in hits, and
// the options to set.
//
// The package sends nothing but initialize, server/discover, list requests and requests for a
// stream of notices. It ends each session that it has opened before it opens the next. The last
// trial is the exception: it finds out whether there may be two sessions.
//
// It knows nothing of Caddy: the Caddyfile that it suggests is a text. A text of the server that
// it repeats is printable and short. It repeats no header value that the operator has given it.
package probe
