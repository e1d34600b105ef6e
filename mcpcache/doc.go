// Package mcpcache is the Caddy module http.handlers.mcp_cache: it stands in
// front of an MCP server (Model Context Protocol, Streamable HTTP), answers the
// list methods from memory, keeps those lists right in the background, and
// lets everything else through Caddy's own reverse_proxy, untouched.
//
// It speaks both eras of the protocol: the revisions with sessions, 2025-03-26
// to 2025-11-25 (legacy), and the stateless 2026-07-28 (modern).
//
// # Words
//
// The upstream is the MCP server, reached through an embedded Caddy handler. A
// kind is what is cached: tools, prompts, resources, resource_templates,
// discover. A feed is the module's own background connection to the upstream
// at one revision; it hydrates, that is, fetches every kind, and refreshes them.
// A snapshot is the immutable result of one fetch of one kind. An entry is one
// cached answer: a snapshot's, or one that a client's own request brought. Its
// partition says who may be given it: everybody, or one authorization context.
// An admission is our record that the upstream has lately accepted a client's
// session or credentials. A view is what the rules let one caller see and call;
// callers with the same one share what is made for it.
//
// # The way of a request
//
// In front of one server, the package exchange answers a list from memory, or forwards the
// request as it is. In front of several servers, a toolkit, the package toolkit joins the lists of
// all, and hands each call to the one server that it is for. The two draw how a request passes
// through them.
//
// Both use a backend for each server. A backend outlives the configurations that use it. Its feeds
// decide when to fetch, and fetch through a client of our own. They pin snapshots in its cache. Its
// ledger knows which clients were let in. Its keeper stores the snapshots, so that they outlive the
// process. The catalogue is the lists as callers see them.
//
//	Handler, command, admin       for people and for Caddy
//	  telemetry, report           what they are told
//	    toolkit                   one request to several servers
//	    exchange                  one request
//	      catalog, policy         the lists as callers see them, by the rules
//	      session, notices        the sessions of a toolkit's clients, and who listens for changes
//	      bridge                  messages of one era in the other
//	        backend               one server
//	          feed, keeper        when to fetch; what outlives the process
//	            client, cache, sieve, encoded, identity, admission, variant
//	              message, sse, revision, upstream
//	                redirect          where the server sends its clients
//
// # Promises
//
//  1. Certain or forwarded. A list comes from the cache only if the whole
//     request is understood and valid for its revision. Anything else goes
//     upstream byte for byte, and the upstream's own error comes back; where
//     rules may hide what it names, it is refused, and so is a cursor of the
//     module's own that leads nowhere. In front of several servers there is no one
//     to forward it to: it is refused in the protocol's own words.
//  2. Never stale after a change was announced. Once a notice has been passed
//     to any client, or a feed has seen one, no later request is answered with
//     the old list; if the upstream fails just then, only callers who were not
//     told may get it, marked stale.
//  3. Never somebody else's list. A private answer stays within the
//     authorization context that fetched it. What rules hide is shown to no
//     caller, and a call of it is answered like one of what does not exist.
//  4. Never ahead of the door. A client is served from the cache only while
//     the upstream's acceptance of it counts, unless the operator says that
//     handlers in front check everybody. The door is asked before rules refuse
//     anything, but for signed requests: nobody can ask in their name. A session that
//     the server has lost gets its 404; one of several servers has another opened.
//  5. Byte-faithful. Items leave as the upstream wrote them. Only the id, the
//     ttlMs and the nextCursor of an answer are the module's, and the prefixes of
//     several servers.
//  6. Failure never empties a list. A failed, partial, oversized or
//     suspiciously empty refresh keeps the last good snapshot. The failure of one
//     of several servers is never another's.
//  7. A sick upstream slows nobody: with a fresh snapshot no list waits, with a
//     stale one none waits longer than a second, unless its caller was told of a
//     change.
//  8. Credentials do not cross. The guard's is on the feed's requests only, a
//     client's on that client's only; one of several servers is sent what its
//     configuration says, and nothing else.
//  9. Everything has a bound.
//  10. A reload loses nothing: with the same upstream, snapshots and feeds
//     live on. Caddy starts with the upstream down.
//
// # States of a feed
//
// The same words are in the admin API, the commands, the logs and the events.
// A handler has one feed for the newest revision of each era, and one for every
// other revision that somebody has asked for.
//
//	             session opened            every kind tried
//	connecting ──────────────────► hydrating ──────────────────► A
//	 │      ▲                          ▲
//	 │      └── from A, session lost   │
//	 ▼                                 │
//	 B ────────────────────────────────┘ session opened after all
//
//	A: ready ◄─► degraded ◄─► down ◄─► needs_authorization, as refreshes go
//	B: down, needs_authorization, unsupported or yielding
//
// They mean:
//
//   - connecting: it is finding out whether the upstream speaks its revision.
//   - hydrating: it is connected and fetches every kind for the first time.
//   - ready: every kind the upstream offers has been fetched, none is failing.
//   - degraded: the last refresh of some kind failed; its copy is served on.
//   - down: the upstream cannot be reached, or every kind is failing.
//   - needs_authorization: the upstream refuses the feed's credential, or the
//     guard has none.
//   - unsupported: the upstream does not speak this revision, which is no
//     failure. The feed asks again once in a while.
//   - yielding: the upstream takes one session at a time, and a client has it.
//
// After a notice a feed waits for a millisecond before it fetches: an upstream
// tells all feeds of a change, and may tell of several in a row.
//
// A feed that is down tries again after a quarter of a second, then ever more
// slowly, up to half a minute; at once when the upstream answers a client.
//
// A handler is ready once there is a copy of every list that a feed found on
// offer, fetched or from a store. Until then GET /mcp_cache/{name} of the admin
// API answers 503.
//
// # Namespaces
//
// The module hosts two kinds of guests, and is a host of Caddy's own:
//
//   - http.handlers, key upstream, of several servers each: the handler that reaches the MCP server,
//     a [caddyhttp.MiddlewareHandler]; usually reverse_proxy.
//   - http.mcp_cache.guards, key guard: gives the feed its credential, a
//     [guards.Guard]; a [guards.Renewer] too if it can do something about a
//     refusal.
//   - http.mcp_cache.stores, key store: keeps snapshots outside the process,
//     a [stores.Store].
//
// It is a guest itself in http.reverse_proxy.transport: as upstream_host, see
// [transports.UpstreamHost], and as stdio, see [stdio.Transport].
//
// # For the operator
//
// Metrics caddy_mcp_cache_*, on Caddy's registry. Routes below /mcp_cache/ of
// Caddy's admin API, and the commands caddy mcp-cache serve, status, list,
// describe, refresh, purge, restart and check. The events mcp_cache.changed and mcp_cache.state of
// Caddy's events app, whose origin is the handler. The fields mcp_method,
// mcp_tool, mcp_outcome and mcp_era in access logs, and mcp_server with the server
// of a toolkit that a request was handed to. Attributes on the spans of
// Caddy's tracing; each refresh of a list has a span of its own, from the first
// traced request of a configuration on.
//
// Placeholders, which later handlers, log formats and response headers can use:
//
//	{http.mcp_cache.outcome}   hit, stale, miss, bypass, denied or routed
//	{http.mcp_cache.method}    the JSON-RPC method
//	{http.mcp_cache.kind}      the kind that is listed, if any
//	{http.mcp_cache.era}       legacy or modern
//	{http.mcp_cache.revision}  the protocol version that the request names, or unknown
//	{http.mcp_cache.tool}      the tool that is called, if any
//	{http.mcp_cache.server}    the one of several servers that the request went to, if any
//
// [caddyhttp.MiddlewareHandler]: https://pkg.go.dev/github.com/caddyserver/caddy/v2/modules/caddyhttp#MiddlewareHandler
// [guards.Guard]: https://pkg.go.dev/github.com/caddy-mcp/mcp-cache/mcpcache/guards#Guard
// [guards.Renewer]: https://pkg.go.dev/github.com/caddy-mcp/mcp-cache/mcpcache/guards#Renewer
// [stores.Store]: https://pkg.go.dev/github.com/caddy-mcp/mcp-cache/mcpcache/stores#Store
// [stdio.Transport]: https://pkg.go.dev/github.com/caddy-mcp/mcp-cache/mcpcache/transports/stdio#Transport
// [transports.UpstreamHost]: https://pkg.go.dev/github.com/caddy-mcp/mcp-cache/mcpcache/transports#UpstreamHost
package mcpcache
