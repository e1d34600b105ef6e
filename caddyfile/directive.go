package caddyfile

import (
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-mcp/mcp-cache/mcpcache"
)

func init() {
	httpcaddyfile.RegisterHandlerDirective("mcp_cache", parseDirective)
	// The handler holds its own upstream, so that nothing behind it runs.
	httpcaddyfile.RegisterDirectiveOrder("mcp_cache", httpcaddyfile.Before, "reverse_proxy")
}

// parseDirective sets up the handler from Caddyfile tokens. Syntax:
//
//	mcp_cache [<matcher>] [<upstream_url...>|stdio <command> [<args...>]] {
//		# which lists, how long
//		kinds          <kind...>                  # tools, prompts, resources, resource_templates, discover. Default: all five
//		ttl            [<kind...>] <duration>     # freshness when the upstream gives no ttlMs. Default: 5m
//		min_ttl        [<kind...>] <duration>     # the shortest time a list is fresh, whatever its ttlMs says, such as the 0 that SDKs send. Default: 0
//		max_ttl        [<kind...>] <duration>     # cap on an upstream's ttlMs. Default: 24h
//		stale_if_error <duration> [after_notice]  # how long a copy may outlive its upstream. Default: 24h. 0: off
//		gate           <duration>                 # how long initialize, or with several servers any request, may wait for the first hydrate. Default: 2s. 0: off
//
//		# who may share a list
//		scope          private|public [always]    # of lists that carry no cacheScope; always: of all. Default: private
//		partition      <placeholder...>           # more request values that tell callers apart
//		harmless       <header...>                # request headers that do not, and cookies, such as Cookie:AWSALB
//		admit          upstream [<duration>]|all  # default: upstream 5m. all: handlers in front authenticate
//		origins        <origin...>                # browser origins let in besides the same origin; null and app://... too. *: any
//
//		# what callers may see and call
//		allow          [<matcher>] <kind> <glob|hint:...>...  # tools, prompts, resources, resource_templates: closes the kind to what no line allows
//		deny           [<matcher>] <kind> <glob|hint:...>...  # wins, whatever is allowed
//		unlisted       allow|deny                 # calls of tools and prompts in no list of the caller, where rules restrict their kind. Default: deny
//		page_size      <n>                        # items of a page of a list from memory. Default: 0. 0: all
//		secret_file    <path>                     # seals the cursors of pages, the ids of sessions and lists that instances share; without it a secret is made, and kept in Caddy's storage
//
//		# the feed
//		guard          <name> [<args...>] [{ ... }]
//		eras           legacy|modern...           # which eras of MCP the feed speaks; legacy is tried first. Default: both
//		endpoint       <path>                     # the upstream's MCP path, when no upstream URL says it. Default: /mcp
//		host           <name...>                  # the Host that the feed sends, where clients' Hosts reach the server, and others with the same lists. Default: the server's address
//		client_name    <name>                     # what the feed calls itself, for servers that let clients in by name. Default: mcp_cache
//		store          <name> [<args...>] [{ ... }] # keeps lists over a restart: caddy, off, or redis, which several instances share. Default: caddy
//		refresh        <duration>                 # never refresh a kind more often than this. Default: 1s
//
//		# several servers, a toolkit, in the place of upstream URLs
//		server         <name> [<url...>|stdio <command> [<args...>]] [{ ... }] # as often as wanted
//		name_limit     <n>                        # the longest name with a prefix; longer ones are shortened. Default: 48
//		door           <server>                   # the one that lets callers in; without it the only one with authorization forward, if there is one
//		session_ttl    <duration>                 # how long a client's session lasts. Default: 720h
//		max_sessions   <n>                        # for how many clients sessions with servers are open, and how many may listen. Default: 10000
//
//		# bounds
//		max_request    <size>                     # largest body looked into; larger ones stream through. Default: 64KiB
//		max_call       <size>                     # largest request that is read for what it names, where there are rules or several servers; larger ones are refused. Default: 4MiB
//		max_list       <size>                     # default: 32MiB a kind
//		max_pages      <n>                        # default: 1000
//		memory         <size>                     # for all partitions, compressed bytes and work in progress, with their garbage. Default: 64MiB
//		precompress    on|off                     # keep answers compressed too, for clients that accept it. Default: on
//
//		name           <name>                     # in metrics, admin API, Cache-Status. Default: mcp_cache
//		stdio          { ... }                    # options of a program: everything the transport of that name takes
//		reverse_proxy  [<upstreams...>] { ... }   # everything the standard directive takes
//	}
//
// An upstream URL is a full http or https URL, such as
// http://127.0.0.1:3001/mcp. Its path is the endpoint; without a path the
// endpoint is /mcp, or what endpoint says. Several URLs are replicas of one
// server and differ in nothing but their hosts and ports. The upstream is sent
// its own address as Host, by the transport upstream_host in the place of http,
// and an https upstream is asked for its own name. A connection to an http upstream
// is closed after 4s without a request, unless keepalive of the transport says otherwise.
//
// A command runs a program that speaks MCP on its standard input and output, by the transport
// stdio of reverse_proxy. In logs the program is called as the server, or as the cache.
//
// A nested reverse_proxy block either names the upstreams instead of URLs, or
// names none and then holds the options of the URLs' upstreams; a header_up
// Host in it takes the place of the one that a URL sets. It has no matcher.
//
// The block of a server has
//
//	prefix        <text>|off                      # before the names of its tools and prompts. Default: its name and two underscores
//	authorization off|forward|guard|from <header> # what a caller's request carries to it. Default: off
//	headers       <header...>                     # headers of callers let through besides the harmless ones
//	session_lost  reopen|end                      # when it has lost a client's session. Default: reopen
//
// and for this server guard, kinds, ttl, min_ttl, max_ttl, stale_if_error, scope, eras,
// endpoint, host, client_name, refresh, max_list, max_pages, stdio, reverse_proxy, and allow and deny with the
// names that it has itself. All other options stand beside the servers, and so do allow and
// deny with the names that clients see.
//
// With after_notice, callers who have been told of a change may be given the
// copy from before it when the upstream fails. Every option may be given once,
// ttl, min_ttl and max_ttl once for each kind besides, and rules and servers as often as wanted:
// their order does not matter. Their matchers are those of the site block.
func parseDirective(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
	h.Next() // consume directive name
	handler := new(mcpcache.Handler)
	if err := newParser(h, handler).parse(); err != nil {
		return nil, err
	}
	return handler, nil
}
