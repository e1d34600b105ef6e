package demo

import (
	"context"
	"fmt"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

func addPrompts(s *server.MCPServer) {
	s.AddPrompt(mcp.NewPrompt("greet",
		mcp.WithPromptDescription("Greets somebody by name."),
		mcp.WithArgument("name", mcp.ArgumentDescription("Who is greeted."), mcp.RequiredArgument()),
	), greet)

	s.AddPrompt(mcp.NewPrompt("tour",
		mcp.WithPromptDescription("Asks the model to try everything this server offers."),
	), tour)
}

func greet(_ context.Context, request mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
	name := request.Params.Arguments["name"]
	if name == "" {
		return nil, fmt.Errorf("greeting: argument name is missing")
	}
	return userPrompt("A greeting.", "Greet "+name+" in one friendly sentence."), nil
}

func tour(context.Context, mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
	return userPrompt("A tour of the demo server.",
		"Call each tool of this server once, read its resources, and tell in a few lines what it can do."), nil
}

// userPrompt returns a prompt of one message from the user.
func userPrompt(description, text string) *mcp.GetPromptResult {
	return mcp.NewGetPromptResult(description, []mcp.PromptMessage{
		mcp.NewPromptMessage(mcp.RoleUser, mcp.NewTextContent(text)),
	})
}
