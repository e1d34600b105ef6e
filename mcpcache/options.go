package mcpcache

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
)

// ServerOptions are the options about one MCP server: the server of a [Handler], or one of several.
type ServerOptions struct {
	// The handler that reaches the MCP server, usually `reverse_proxy`. The
	// requests of clients and those of the feed both go through it. Required, if there are no `servers`.
	UpstreamRaw json.RawMessage `json:"upstream,omitempty" caddy:"namespace=http.handlers inline_key=handler"`

	// The guard that gives the feed its credential. Default: none, the feed
	// is an anonymous caller.
	GuardRaw json.RawMessage `json:"guard,omitempty" caddy:"namespace=http.mcp_cache.guards inline_key=guard"`

	// The Host that the feed sends, as `name` or `name:port`, where the
	// upstream handler lets the clients' Hosts through to the server. Lists
	// that are not everybody's are shared with clients of that Host only.
	// Default: the server's address, as the first upstream has it
	Host string `json:"host,omitempty"`

	// What the feed calls itself, in `initialize` and in modern requests, for servers that
	// let clients in by their name. Up to 64 letters, digits, spaces and `._/@-`. Default: `mcp_cache`
	ClientName string `json:"client_name,omitempty"`

	// Which eras of MCP the feed speaks: `legacy`, the revisions with sessions,
	// and `modern`, those without. A server that speaks one of them alone need
	// not be asked for the other. Lists of clients of an era that is not named
	// come from the server. Default: both, `legacy` is tried first
	Eras []string `json:"eras,omitempty"`

	// Which lists to cache: `tools`, `prompts`, `resources`,
	// `resource_templates`, `discover`. Default: all of them.
	Kinds []string `json:"kinds,omitempty"`

	// How long a list is fresh when the upstream gives no `ttlMs`. A
	// `ttlMs` of 0 is obeyed: such a list is never served without asking.
	// Default: 5m
	TTL caddy.Duration `json:"ttl,omitempty"`

	// The same for single kinds, by their names. Default: `ttl`
	TTLByKind map[string]caddy.Duration `json:"ttl_by_kind,omitempty"`

	// The shortest time a list is fresh, whatever its `ttlMs` says, such as the
	// 0 that SDKs send when the author of the server has set nothing. The cache
	// has an announced change at once all the same; clients that keep lists
	// themselves may miss it for this long. Lists and `server/discover` only,
	// never the contents of resources. Default: 0, `ttlMs` is obeyed
	MinTTL caddy.Duration `json:"min_ttl,omitempty"`

	// The same for single kinds, by their names. Default: `min_ttl`
	MinTTLByKind map[string]caddy.Duration `json:"min_ttl_by_kind,omitempty"`

	// The longest time a list is fresh, whatever its `ttlMs` says.
	// Default: 24h
	MaxTTL caddy.Duration `json:"max_ttl,omitempty"`

	// The same for single kinds, by their names. Default: `max_ttl`
	MaxTTLByKind map[string]caddy.Duration `json:"max_ttl_by_kind,omitempty"`

	// How long a copy may be served after it went stale while the upstream
	// fails. 0 turns that off. Default: 24h
	StaleIfError *caddy.Duration `json:"stale_if_error,omitempty"`

	// Whether callers who have been told of a change may be given the copy
	// from before it, marked stale, when the upstream then fails. If not,
	// they are given the failure. Default: false
	StaleAfterNotice bool `json:"stale_after_notice,omitempty"`

	// Who may share a list that carries no `cacheScope`: `private` (the
	// callers with the same credentials) or `public` (everybody who asks for the same).
	// A program in the place of a server is told of no credentials: there, nothing
	// is the same as `public`, unless Partition is set. Default: `private`
	Scope string `json:"scope,omitempty"`

	// Whether `scope` `public` counts for all lists, also for those that the
	// upstream calls private; never for the contents of resources. Only safe
	// where the upstream shows every caller the same lists. Default: false
	ScopeAlways bool `json:"scope_always,omitempty"`

	// The least time between two refreshes of a kind that change notices,
	// expiries and calls start. Default: 1s
	Refresh caddy.Duration `json:"refresh,omitempty"`

	// The most pages a list may have. Default: 1000
	MaxPages int `json:"max_pages,omitempty"`
}

// SharedOptions are the options that a [Handler] has, and each of several servers has for itself.
type SharedOptions struct {
	// The name in metrics, the admin API and the `Cache-Status` header. One of several servers needs
	// a name of 1 to 32 of a-z, 0-9 and `-`, which also is the prefix of its tools. Default: `mcp_cache`
	Name string `json:"name,omitempty"`

	// The path of the MCP endpoint. Requests to other paths are passed on
	// once their Host and Origin have been checked. One of several servers has
	// its endpoint at that path. Default: `/mcp`
	Endpoint string `json:"endpoint,omitempty"`

	// What callers may see and call: each rule allows or denies some items, to everybody
	// or to some. Their order does not matter. The rules of one of several servers speak of the
	// names that the server has itself, all others of the names that clients see. Default: everything
	Rules []*Rule `json:"rules,omitempty"`

	// The largest list of one kind, in bytes, that is kept. With `servers`, it holds for the list of
	// all of them together, and for each that has no `max_list` of its own. Default: 33554432
	MaxList int64 `json:"max_list,omitempty"`
}

// EndpointOptions are the options about the endpoint that clients use, in front of one server or of
// several.
type EndpointOptions struct {
	// How long the answer to `initialize` is held back for the first
	// hydrate, so that a client's first list is already a hit; with `servers`, how
	// long requests wait for one whose feed has just begun. 0 turns that off.
	// Default: 2s
	Gate *caddy.Duration `json:"gate,omitempty"`

	// Who lets callers in: `upstream` (a caller is served from the cache only
	// after the upstream has accepted the same credentials or session) or
	// `all` (handlers in front of this one have already checked everybody). With `servers`,
	// it is about the `door`, and those that may show callers lists of their own.
	// A program in the place of a server refuses nobody, so there it is the same as
	// `all`. Default: `upstream`
	Admit string `json:"admit,omitempty"`

	// How long the upstream's acceptance of a caller counts, with `upstream`.
	// A token's own expiry shortens it. Default: 5m
	AdmitFor caddy.Duration `json:"admit_for,omitempty"`

	// Origins of browser pages that are let in besides the endpoint's own,
	// such as `https://app.example.com`, `app://bundle` or `null`; `*` lets in any. A host
	// named here is also accepted in the Host header of requests that arrive at a loopback
	// address, and so are those that the routes of the server name.
	Origins []string `json:"origins,omitempty"`

	// Whether a caller may name a tool or prompt that none of the caller's lists has, where
	// rules restrict that kind. With `deny` the cache refuses the name as it refuses a hidden
	// one. With `allow` the rules look at the name alone. Default: `deny`
	Unlisted string `json:"unlisted,omitempty"`

	// The file with the secrets that seal the cursors of pages, with `servers` the ids
	// of sessions, and lists in a store that instances share: one or two lines of 32 random bytes in base64, as
	// `openssl rand -base64 32` writes them. The first seals, what any of them has sealed is
	// opened. It is looked at again when it changes. Only with `page_size`, `servers` or
	// such a store. Default: none; one secret is made, and kept in Caddy's storage
	SecretFile string `json:"secret_file,omitempty"`

	// Where the feed's snapshots are kept, so that lists are there after a
	// restart even while the upstream is not: only those that anybody may be
	// given, or anybody without credentials. One that nobody has saved for a
	// week is deleted. Default: `caddy`, Caddy's own storage. `off` keeps none. `redis`,
	// which has to be built in, is for several instances that share them.
	StoreRaw json.RawMessage `json:"store,omitempty" caddy:"namespace=http.mcp_cache.stores inline_key=store"`

	// The largest request body, in bytes, that is looked into. A larger one
	// streams through. Default: 65536
	MaxRequest int64 `json:"max_request,omitempty"`

	// The largest request, in bytes, that is read for what it names, where there are
	// `rules` or `servers`. A larger one is refused there. At least `max_request`, at most a
	// sixteenth of `memory`; the default follows them. Default: 4194304
	MaxCall int64 `json:"max_call,omitempty"`

	// Bytes that the process may need for everything together but the feed's own
	// snapshots: answers that are kept, as they are and compressed, answers that
	// are being recorded, parsed and written to slow readers, and the garbage of
	// all that, which takes half. What does not fit is passed on and not kept.
	// Messages on their way to and from programs may take as many bytes again.
	// Default: 67108864
	Memory int64 `json:"memory,omitempty"`

	// Whether answers of 1 KiB and more are compressed once, in the
	// background, to gzip and zstd for the clients that accept one of them.
	// A list that changes all the time is, once it has stayed for two seconds.
	// An eighth of `memory` is for the compressed bytes. Default: true
	Precompress *bool `json:"precompress,omitempty"`
}

// OneServerOptions are the options of a [Handler] in front of one server. Several servers do not have them
// yet.
type OneServerOptions struct {
	// More Hosts of clients at which the server has the same lists as at `host`. Default: none
	SameHosts []string `json:"same_hosts,omitempty"`

	// More request values, as placeholders, that tell callers apart besides
	// `Authorization`, `Cookie`, `DPoP`, the client certificate, the query
	// string, the user an authenticating handler has found and the placeholders
	// that the upstream handler uses. Public lists are kept apart by these values, too.
	Partition []string `json:"partition,omitempty"`

	// Names of more request headers that do not tell callers apart, besides
	// those that are known not to, such as `X-Conversation-Id`. Every other
	// header does. A credential cannot be named, but single cookies can, such as
	// `Cookie:AWSALB` of a load balancer.
	Harmless []string `json:"harmless,omitempty"`

	// How many items a page of a list has, where the list comes from memory: at most
	// 1000000. Lists that the server answers come as they are. Default: 0, one page
	PageSize int `json:"page_size,omitempty"`
}

// ToolkitOptions are the options of a [Handler] in front of several servers.
type ToolkitOptions struct {
	// Several MCP servers behind one endpoint, a toolkit, in the place of `upstream`.
	// Clients see the lists of all, in this order, the names of tools and prompts with
	// a prefix; each call goes to the server that it is for. Each server then has
	// [ServerOptions] of its own.
	Servers []*Server `json:"servers,omitempty"`

	// The most bytes that the name of a tool or prompt has with the prefix of its
	// server, of `servers`. Names that the prefix makes longer are shortened, always
	// to the same. From 16 to 128. Default: 48
	NameLimit int `json:"name_limit,omitempty"`

	// How long the session of a legacy client lasts, with `servers`. It lives on over a
	// restart. Default: 720h
	SessionTTL caddy.Duration `json:"session_ttl,omitempty"`

	// For how many sessions of legacy clients, with `servers`, sessions with these are
	// open, or a log level is remembered. One more ends what is open for the idle one that
	// was used longest ago; that client has others opened when it needs them. As many
	// clients may listen for changes; one more is told to try again. Default: 10000
	MaxSessions int `json:"max_sessions,omitempty"`

	// The name of the one of the `servers` that lets callers in: nobody whom it has not
	// accepted gets anything. Its 401 and 403 are the endpoint's, and so is what it says of
	// where to log in. It has to be sent something of callers. Without it, the only server
	// with `authorization` `forward` does that; if there is none, all are in. Default: none
	Door string `json:"door,omitempty"`
}

// Server is one of several MCP servers behind a [Handler], which then is a toolkit. All options that
// are not about one server are the toolkit's.
type Server struct {
	ServerOptions
	SharedOptions

	// What is put before the names of the server's tools and prompts; an empty text is
	// nothing. Of servers with one, no prefix may begin with that of another. Default: the
	// name and two underscores, such as `github__`
	Prefix *string `json:"prefix,omitempty"`

	// What becomes of a client when the server has lost the session that is open for it: with
	// `reopen` another is opened, and the request sent once more if the server cannot have done it;
	// with `end` the client's own session ends, or the request of a client without one fails.
	// Default: `reopen`
	SessionLost string `json:"session_lost,omitempty"`

	// What a caller's requests carry to the server as their `Authorization`. With anything of
	// the caller's, it has lists of its own from that server. Default: nothing
	Authorization *Authorization `json:"authorization,omitempty"`

	// More headers of callers that the server is sent, besides those that are known to be
	// harmless, such as `X-Tenant`. A caller who sends one has lists of its own from that
	// server. Default: none
	Headers []string `json:"headers,omitempty"`
}

// UnmarshalJSON reads a server. Its error names the server, and the option of the toolkit that the
// server has.
func (s *Server) UnmarshalJSON(data []byte) error {
	type server Server
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	err := decoder.Decode((*server)(s))
	if err == nil {
		return nil
	}
	var all map[string]json.RawMessage
	if json.Unmarshal(data, &all) != nil {
		return err
	}
	who := "server"
	if name := ""; json.Unmarshal(all["name"], &name) == nil && name != "" {
		who += " " + name
	}
	elsewhere := slices.Concat(optionNames(EndpointOptions{}), optionNames(OneServerOptions{}), optionNames(ToolkitOptions{}))
	for _, option := range slices.Sorted(maps.Keys(all)) {
		if slices.Contains(elsewhere, option) {
			return fmt.Errorf("%s: %s: not an option of a server of a toolkit, or not yet", who, option)
		}
	}
	return fmt.Errorf("%s: %w", who, err)
}

// Authorization says what a caller's requests carry to a server of a toolkit as their
// `Authorization`.
type Authorization struct {
	// `off`: nothing. `forward`: the caller's own. `guard`: the credential of the server's
	// guard, so that every caller acts as that account. `from`: what the caller sends in
	// `header`. Default: `off`
	Mode string `json:"mode,omitempty"`

	// The header whose value is the server's `Authorization`, as it is, such as
	// `X-GitHub-Auth` with `Bearer ...`; a caller who does not send it comes without one.
	// Only with `from`, and needed there
	Header string `json:"header,omitempty"`
}

// optionNames returns the names of options in JSON.
func optionNames(options any) []string {
	return fieldNames(options, func(reflect.Value) bool { return true })
}

// given returns the names in JSON of those options that have a value. A list without elements is
// none.
func given(options any) []string {
	return fieldNames(options, func(value reflect.Value) bool {
		return !value.IsZero() && (value.Kind() != reflect.Slice || value.Len() > 0)
	})
}

// fieldNames returns the names in JSON of the fields of a struct whose values are picked.
func fieldNames(options any, pick func(reflect.Value) bool) (names []string) {
	v := reflect.ValueOf(options)
	for _, field := range reflect.VisibleFields(v.Type()) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name != "" && pick(v.FieldByIndex(field.Index)) {
			names = append(names, name)
		}
	}
	return names
}
