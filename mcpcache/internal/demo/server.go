// Package demo is a small MCP server for trying the cache. It has a few tools, prompts and
// resources, and a resource template. It serves them over Streamable HTTP on a loopback port, in
// both eras of the protocol at one URL. Everybody may share its lists for a minute.
package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

const (
	// Path is the path of the MCP endpoint.
	Path = "/mcp"

	// listTTL is what the server says, as ttlMs, about how long its lists
	// are fresh.
	listTTL = time.Minute

	// maxRequest is the largest request body the server reads, in bytes.
	maxRequest = 1 << 20

	// sessionIdle is how long the server keeps the state of a session that
	// nobody uses.
	sessionIdle = 30 * time.Minute

	// heartbeat is how often the server pings on an open GET stream, so that
	// no proxy takes the stream for dead.
	heartbeat = 15 * time.Second

	// headerTimeout is how long a client may take to send its headers.
	headerTimeout = 10 * time.Second
)

// Server is a demo server that is running.
type Server struct {
	listener  net.Listener
	transport *server.StreamableHTTPServer
	http      *http.Server
	ended     chan struct{} // closed when serve has returned
	failure   error         // why it returned unasked; set before ended is closed
}

// Start starts a demo server on a free port of 127.0.0.1. Close ends it; ctx is
// for starting only.
func Start(ctx context.Context) (*Server, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for the demo server: %w", err)
	}
	transport := server.NewStreamableHTTPServer(content(),
		server.WithStateful(true),
		server.WithSessionIdleTTL(sessionIdle),
		server.WithHeartbeatInterval(heartbeat),
	)
	mux := http.NewServeMux()
	mux.Handle(Path, transport)
	s := &Server{
		listener:  listener,
		transport: transport,
		http: &http.Server{
			Handler:           http.MaxBytesHandler(mux, maxRequest),
			ReadHeaderTimeout: headerTimeout,
		},
		ended: make(chan struct{}),
	}
	go s.serve()
	return s, nil
}

// serve answers requests until Close.
func (s *Server) serve() {
	defer close(s.ended)
	defer func() {
		if p := recover(); p != nil {
			s.failure = fmt.Errorf("serving the demo: panic: %v", p)
		}
	}()
	if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		s.failure = fmt.Errorf("serving the demo: %w", err)
	}
}

// URL returns the URL of the MCP endpoint.
func (s *Server) URL() string {
	return "http://" + s.listener.Addr().String() + Path
}

// Wait returns when the server has ended: nil after Close, else why it could
// not go on.
func (s *Server) Wait() error {
	<-s.ended
	return s.failure
}

// Close ends the server with all its sessions, streams and connections. It may
// be called again.
func (s *Server) Close() error {
	// The transport's own part only ends sessions: it does not own the HTTP
	// server, so there is nothing that it could wait for.
	err := s.transport.Shutdown(context.Background())
	return errors.Join(err, s.http.Close(), s.Wait())
}

// content returns the MCP server behind the transport, with all it offers.
func content() *server.MCPServer {
	s := server.NewMCPServer("mcp_cache demo", "1.0.0",
		server.WithTitle("mcp_cache demo server"),
		server.WithInstructions("A server to try mcp_cache on. Call toggle_tool to change its list of tools."),
		server.WithToolCapabilities(true),
		server.WithPromptCapabilities(true),
		server.WithResourceCapabilities(false, true),
		server.WithCacheHints(listTTL.Milliseconds(), mcp.CacheScopePublic),
		server.WithRecovery(),
		server.WithInputSchemaValidation(),
	)
	addTools(s)
	addPrompts(s)
	addResources(s)
	return s
}
