package main

import (
	"context"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// runGoSDK runs a stateless server of the official Go SDK that answers in JSON
// and whose schemas are raw JSON. Arguments: address, file of tools.
func runGoSDK(args []string) error {
	tools, err := readTools(args[1])
	if err != nil {
		return err
	}
	m := mcp.NewServer(&mcp.Implementation{Name: "bench", Version: "1"}, &mcp.ServerOptions{PageSize: len(tools)})
	for _, t := range tools {
		m.AddTool(&mcp.Tool{Name: t.Name, Description: t.Description, InputSchema: t.InputSchema}, goSDKDone)
	}
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return m },
		&mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
	return serve(args[0], handler, &Server{})
}

func goSDKDone(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "done"}}}, nil
}
