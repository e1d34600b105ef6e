// Package mcpcache is the Caddy module http.handlers.mcp_cache. The handler stands in front of an
// MCP server (Model Context Protocol, Streamable HTTP) and answers the list methods from memory.
// It keeps the lists right in the background, and passes everything else through Caddy's own
// reverse_proxy, untouched.
//
// The handler speaks both eras of the protocol. The legacy era has sessions: revisions 2025-03-26
// to 2025-11-25. The modern era is stateless: revision 2026-07-28.
//
// # Words
//
//   - upstream: the MCP server. The handler reaches it through an embedded Caddy handler.
//   - kind: one of the things that are cached: tools, prompts, resources, resource_templates,
//     discover.
//   - feed: the module's own background connection to the upstream at one revision. It hydrates,
//     that is, it fetches every kind, and then refreshes them.
//   - snapshot: the immutable result of one fetch of one kind.
//   - entry: one cached answer. It is a snapshot, or the answer to a client's own request. Its
//     partition says who may get it: everybody, or one authorization context.
//   - admission: our record that the upstream has lately accepted a client's session or
//     credentials.
//   - door: the server that decides whom an endpoint lets in.
//   - view: the items that the rules let one caller see and call. Callers with the same view share
//     the lists that are made for it.
//   - guard: the module that gives a feed its credential.
//   - toolkit: several servers behind one endpoint.
//
// # The way of a request
//
// In front of one server, the package exchange answers a list from memory, or forwards the request
// as it is. In front of a toolkit, the package toolkit joins the lists of all servers, and routes
// each call to one of them. The comments of both packages draw the way of a request.
//
// Both packages use a backend for each server. A backend outlives the configurations that use it.
// Its feeds decide when to fetch, and fetch through a client of our own. They pin snapshots in the
// backend's cache. The backend's ledger remembers admissions. Its keeper stores snapshots, so that
// they outlive the process. The catalog has the lists as callers see them.
//
//	Handler, command, admin       for people and for Caddy
//	  telemetry, report           metrics and status
//	    toolkit                   one request to several servers
//	    exchange                  one request to one server
//	      catalog, policy         the lists as callers see them, by the rules
//	      session, notices        the sessions of a toolkit's clients, and their streams of notices
//	      bridge                  messages of one era in the other
//	        backend               one server
//	          feed, persist       when to fetch; what outlives the process
//	            client, cache, responsefilter, encoded, identity, admission, variant
//	              message, sse, revision, upstream
//	                redirect          where the server sends its clients
//
// # Promises
//
//  1. Certain or forwarded. A list comes from the cache only if the handler understands the whole
//     request, and the request is valid for its revision. The handler sends everything else to the
//     upstream byte for byte, and passes the upstream's own error on. It rejects two kinds of
//     requests: those that name something rules may hide, and those with a cursor of the module
//     that leads nowhere. A toolkit cannot forward what it does not understand. It rejects such
//     requests with the protocol's own error.
//  2. Never stale after a change was announced. Once a client has received a notice, or a feed has
//     seen one, no later request gets the old list. If the upstream fails just then, only callers
//     who did not receive the notice may get the old list, marked stale.
//  3. Never somebody else's list. A private answer stays within the authorization context that
//     fetched it. A caller never sees an item that the rules hide. A call of a hidden item gets the
//     same answer as a call of an unknown one.
//  4. Never ahead of the door. The cache serves a client only while the upstream's acceptance of
//     it counts. The operator can say that handlers in front check every client instead. The
//     handler asks the door before rules reject a request. Signed requests are the exception:
//     nobody can ask in their name. A session that the server has lost gets the server's 404. If
//     one of several servers has lost a session, the toolkit opens another one.
//  5. Byte-faithful. Items leave as the upstream wrote them. The module writes only the id, the
//     ttlMs and the nextCursor of an answer, and the prefixes of several servers.
//  6. Failure never empties a list. A failed, partial, oversized or suspiciously empty refresh
//     keeps the last good snapshot. The failure of one server never becomes another server's.
//  7. A sick upstream slows nobody. With a fresh snapshot no list waits. With a stale snapshot no
//     list waits longer than a second, unless its caller has received a notice of a change.
//  8. Credentials do not cross. The guard's credential is on the feed's requests only, and a
//     client's on that client's only. Each of several servers receives the credentials that its
//     configuration names, and no others.
//  9. Everything has a bound.
//  10. A reload loses nothing. With the same upstream, snapshots and feeds live on. Caddy starts
//     also while the upstream is down.
//
// # States of a feed
//
// The admin API, the commands, the logs and the events use the same words for the states. A handler
// has one feed for the newest revision of each era. It has one more for every other revision that a
// client has asked for.
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
// The states are:
//
//   - connecting: the feed finds out whether the upstream speaks its revision.
//   - hydrating: the feed is connected and fetches every kind for the first time.
//   - ready: the feed has fetched every kind that the upstream offers, and no refresh fails.
//   - degraded: the last refresh of some kind failed. The handler goes on to answer with its copy.
//   - down: the feed cannot reach the upstream, or the refreshes of every kind fail.
//   - needs_authorization: the upstream refuses the feed's credential, or the guard has none.
//   - unsupported: the upstream does not speak this revision. That is no failure. The feed asks
//     again once in a while.
//   - yielding: the upstream takes one session at a time, and a client has it.
//
// After a notice a feed waits for a millisecond before it fetches. An upstream tells all feeds of a
// change, and may announce several changes in a row.
//
// A feed that is down tries again after a quarter of a second. Then it tries ever more slowly, with
// up to half a minute between two attempts. It tries at once when the upstream answers a client.
//
// A handler is ready once it has a copy of every list that a feed found on offer. The copies may
// come from a store. Until then GET /mcp_cache/{name} of the admin API answers 503.
//
// # Namespaces
//
// The module hosts two kinds of modules, and embeds a handler of Caddy's own:
//
//   - http.handlers, key upstream: the handler that reaches the MCP server, a
//     [caddyhttp.MiddlewareHandler]. It is usually reverse_proxy. Each of several servers has one.
//   - http.mcp_cache.guards, key guard: a [guards.Guard], which gives the feed its credential. A
//     guard that can do something about a refusal is a [guards.Renewer] too.
//   - http.mcp_cache.stores, key store: a [stores.Store], which keeps snapshots outside the process.
//
// The module itself adds two transports to http.reverse_proxy.transport. See
// [transports.UpstreamHost] for upstream_host, and [stdio.Transport] for stdio.
//
// # For the operator
//
//   - Metrics named caddy_mcp_cache_*, on Caddy's registry.
//   - Routes below /mcp_cache/ of Caddy's admin API.
//   - The commands caddy mcp-cache serve, status, list, describe, refresh, purge, restart and check.
//   - The events mcp_cache.changed and mcp_cache.state of Caddy's events app. Their origin is the
//     handler.
//   - The fields mcp_method, mcp_tool, mcp_outcome and mcp_era in access logs. The field mcp_server
//     names the server of a toolkit that received the request.
//   - Attributes on the spans of Caddy's tracing. Each refresh of a list has a span of its own, from
//     the first traced request of a configuration on.
//
// Later handlers, log formats and response headers can use these placeholders:
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
