package caddyfile

import "github.com/caddy-mcp/mcp-cache/mcpcache"

// readers are the functions that read options, by the names of the options. T is the part of the
// configuration that they fill in: it says where the options count.
type readers[T any] map[string]func(*T, option) error

// addTo adds the readers to those of a block, each for that part of the configuration.
func (r readers[T]) addTo(block map[string]func(option) error, part *T) {
	for name, read := range r {
		block[name] = func(o option) error { return read(part, o) }
	}
}

// The options of a directive with one server, and of each of several servers.
var (
	ofServer = readers[mcpcache.ServerOptions]{
		"kinds":          readKinds,
		"ttl":            readTTL,
		"min_ttl":        readMinTTL,
		"max_ttl":        readMaxTTL,
		"stale_if_error": readStaleIfError,
		"scope":          readScope,
		"guard":          readGuard,
		"eras":           readEras,
		"client_name":    readClientName,
		"refresh":        readRefresh,
		"max_pages":      readMaxPages,
	}
	// ofUpstream are those about the handler that reaches the server.
	ofUpstream = readers[parser]{
		"host":          (*parser).host,
		"stdio":         (*parser).stdio,
		"reverse_proxy": (*parser).reverseProxy,
	}
)

// The options that a directive has, and each of several servers for itself.
var (
	ofShared = readers[mcpcache.SharedOptions]{"endpoint": readEndpoint, "max_list": readMaxList}
	ofRules  = readers[parser]{"allow": (*parser).rule, "deny": (*parser).rule}
)

// The options of a directive, with one server or with several.
var (
	ofEndpoint = readers[mcpcache.EndpointOptions]{
		"gate":        readGate,
		"admit":       readAdmit,
		"origins":     readOrigins,
		"unlisted":    readUnlisted,
		"secret_file": readSecretFile,
		"store":       readStore,
		"max_request": readMaxRequest,
		"max_call":    readMaxCall,
		"memory":      readMemory,
		"precompress": readPrecompress,
	}
	ofDirective = readers[parser]{"name": (*parser).name}
)

func init() { ofDirective["server"] = (*parser).readServer } // which itself reads options

// ofOneServer are the options of a directive with one server. They are planned for several.
var ofOneServer = readers[mcpcache.OneServerOptions]{
	"partition": readPartition,
	"harmless":  readHarmless,
	"page_size": readPageSize,
}

// ofToolkit are the options of a directive with several servers. alone says how it is with one.
var ofToolkit = map[string]struct {
	read  func(*mcpcache.ToolkitOptions, option) error
	alone string
}{
	"name_limit":   {readNameLimit, "no name is changed"},
	"session_ttl":  {readSessionTTL, "sessions are the server's"},
	"max_sessions": {readMaxSessions, "sessions are the server's"},
	"door":         {readDoor, "the server lets callers in itself"},
}

// ofOneOfSeveral are the options that only one of several servers has.
var ofOneOfSeveral = readers[mcpcache.Server]{
	"prefix":        readPrefix,
	"session_lost":  readSessionLost,
	"authorization": readAuthorization,
	"headers":       readHeaders,
}

// planned are options that will come with several servers.
var planned = []string{"uris", "timeout", "instructions"}

// options returns the options that the block may have.
func (p *parser) options() map[string]func(option) error {
	block := make(map[string]func(option) error)
	ofServer.addTo(block, p.server)
	ofUpstream.addTo(block, p)
	ofShared.addTo(block, p.shared)
	ofRules.addTo(block, p)
	if p.into != nil {
		ofOneOfSeveral.addTo(block, p.into)
		return block
	}
	ofEndpoint.addTo(block, &p.handler.EndpointOptions)
	ofDirective.addTo(block, p)
	ofOneServer.addTo(block, &p.handler.OneServerOptions)
	for name, known := range ofToolkit {
		block[name] = func(o option) error { return known.read(&p.handler.ToolkitOptions, o) }
	}
	return block
}
