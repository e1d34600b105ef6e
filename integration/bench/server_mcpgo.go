package main

import (
	"context"
	"log/slog"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// runMCPGo runs a stateless server of mcp-go whose schemas are raw JSON, which
// it writes faster than typed ones. Arguments: address, file of tools.
func runMCPGo(args []string) error {
	tools, err := readTools(args[1])
	if err != nil {
		return err
	}
	m := server.NewMCPServer("bench", "1", server.WithToolCapabilities(true),
		server.WithCacheHints(3_600_000, mcp.CacheScopePublic))
	for _, t := range tools {
		m.AddTool(mcp.NewToolWithRawSchema(t.Name, t.Description, t.InputSchema), mcpGoDone)
	}
	handler := server.NewStreamableHTTPServer(m, server.WithStateLess(true),
		server.WithStreamableHTTPLogger(slog.New(slog.DiscardHandler)))
	return serve(args[0], handler, &Server{})
}

func mcpGoDone(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return mcp.NewToolResultText("done"), nil
}
