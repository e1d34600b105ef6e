package demo

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

const (
	aboutURI     = "demo://about"
	startedURI   = "demo://started"
	squarePrefix = "demo://square/"

	plainText = "text/plain"

	about = "This is the demo server of mcp_cache. It runs behind the cache: " +
		"its lists are answered from memory, everything else reaches it.\n"
)

func addResources(s *server.MCPServer) {
	started := time.Now().UTC().Format(time.RFC3339)
	addText(s, aboutURI, "about", "What this server is.", about)
	addText(s, startedURI, "started", "When this server was started, in UTC.", started)

	s.AddResourceTemplate(mcp.NewResourceTemplate(squarePrefix+"{n}", "square",
		mcp.WithTemplateDescription("The square of an integer."),
		mcp.WithTemplateMIMEType(plainText),
	), square)
}

// addText adds a resource of plain text.
func addText(s *server.MCPServer, uri, name, description, text string) {
	s.AddResource(mcp.NewResource(uri, name,
		mcp.WithResourceDescription(description),
		mcp.WithMIMEType(plainText),
	), func(context.Context, mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
		return textContents(uri, text), nil
	})
}

func square(_ context.Context, request mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
	digits, _ := strings.CutPrefix(request.Params.URI, squarePrefix)
	n, err := strconv.ParseInt(digits, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("parsing the number to square: %w", err)
	}
	return textContents(request.Params.URI, strconv.FormatInt(n*n, 10)), nil
}

func textContents(uri, text string) []mcp.ResourceContents {
	return []mcp.ResourceContents{mcp.TextResourceContents{URI: uri, MIMEType: plainText, Text: text}}
}
