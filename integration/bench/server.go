package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	mcpgo "github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// roles are what this program starts itself as: servers at an address. Their
// other arguments are files: of tools, of a Caddy its Caddyfile.
var roles = map[string]func(addr string, args []string) error{
	caddyRole:    runCaddy,
	upstreamRole: runUpstream,
	"mcp-go":     runMCPGo,
	"go-sdk":     runGoSDK,

	goSDKSessionsRole: runGoSDKSessions,
	programRole:       runProgram,
}

// serve serves a handler at an address until the parent ends it.
func serve(addr string, handler http.Handler) error {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	s := &http.Server{Handler: handler, ReadHeaderTimeout: requestTimeout}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(listener) }()
	err = serveUsage()
	_ = s.Close() // nobody needs its connections any more
	if failure := <-ended; !errors.Is(failure, http.ErrServerClosed) {
		return fmt.Errorf("serving: %w", failure)
	}
	return err
}

// readTools reads the file of tools that a server is to have.
func readTools(path string) ([]tool, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading tools: %w", err)
	}
	var tools []tool
	if err := json.Unmarshal(content, &tools); err != nil {
		return nil, fmt.Errorf("reading tools: %w", err)
	}
	return tools, nil
}

// runMCPGo runs a stateless server of mcp-go whose schemas are raw JSON, which
// it writes faster than typed ones.
func runMCPGo(addr string, args []string) error {
	tools, err := readTools(args[0])
	if err != nil {
		return err
	}
	m := server.NewMCPServer("bench", "1", server.WithToolCapabilities(true))
	for _, t := range tools {
		m.AddTool(mcpgo.NewToolWithRawSchema(t.Name, t.Description, t.InputSchema),
			func(context.Context, mcpgo.CallToolRequest) (*mcpgo.CallToolResult, error) {
				return mcpgo.NewToolResultText("done"), nil
			})
	}
	return serve(addr, server.NewStreamableHTTPServer(m, server.WithStateLess(true),
		server.WithStreamableHTTPLogger(slog.New(slog.DiscardHandler))))
}

// runGoSDK runs a stateless server of the official Go SDK that answers in JSON
// and whose schemas are raw JSON.
func runGoSDK(addr string, args []string) error {
	tools, err := readTools(args[0])
	if err != nil {
		return err
	}
	m := newGoSDKServer(tools)
	return serve(addr, mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return m },
		&mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true}))
}

// runGoSDKSessions runs a server of the official Go SDK with its defaults.
func runGoSDKSessions(addr string, args []string) error {
	tools, err := readTools(args[0])
	if err != nil {
		return err
	}
	m := newGoSDKServer(tools)
	return serve(addr, mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return m }, nil))
}

func newGoSDKServer(tools []tool) *mcp.Server {
	m := mcp.NewServer(&mcp.Implementation{Name: "bench", Version: "1"}, &mcp.ServerOptions{PageSize: len(tools)})
	for _, t := range tools {
		m.AddTool(&mcp.Tool{Name: t.Name, Description: t.Description, InputSchema: t.InputSchema},
			func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "done"}}}, nil
			})
	}
	return m
}

// runUpstream runs the server behind all proxies. With a second argument, its
// list changes at that interval.
func runUpstream(addr string, args []string) error {
	tools, err := readTools(args[0])
	if err != nil {
		return err
	}
	u := newUpstream(tools)
	if len(args) > 1 {
		every, err := time.ParseDuration(args[1])
		if err != nil {
			return fmt.Errorf("reading interval: %w", err)
		}
		ctx, stop := context.WithCancel(context.Background())
		defer stop()
		go u.keepChanging(ctx, every)
	}
	return serve(addr, u)
}
