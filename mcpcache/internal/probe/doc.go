// Package probe asks an MCP server what it lets a cache do, as a client of
// either era would: which revisions it speaks, whom it gives which lists, for
// how long they may be kept and whether it tells of changes. A [Report] says
// what was found, what that costs in hits, and what to set.
//
// It sends nothing but initialize, server/discover, list requests and requests
// for a stream of notices, and ends the sessions that it opened: each before the
// next, but for one trial in the end whether there may be two. It knows nothing of
// Caddy: the Caddyfile that it suggests is a text. What it repeats of a server's
// texts is printable and short, and it repeats no header value that it was given.
package probe
