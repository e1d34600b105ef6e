package caddytest

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/programtest"
)

// ProgramUpstream writes a reverse_proxy whose upstream is a program.
func ProgramUpstream(command []string, options ...string) string {
	var quoted []string
	for _, word := range command {
		quoted = append(quoted, strconv.Quote(word))
	}
	return fmt.Sprintf("reverse_proxy stdio/tested {\n\ttransport stdio %s {\n\t\t%s\n\t}\n}",
		strings.Join(quoted, " "), strings.Join(options, "\n\t\t"))
}

// MisbehavingProgram is the command of the program that misbehaves on demand. Its processes make
// files in the directory.
func MisbehavingProgram(t testing.TB, traits ...string) (command []string, dir string) {
	t.Helper()
	dir = t.TempDir()
	path, args := programtest.Command(append(traits, "pids", dir)...)
	return append([]string{path}, args...), dir
}

// ProgramHello opens a session.
var ProgramHello = fixture.Message("1", "initialize",
	`{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}`)

// RelayTo returns how a configuration names a program that passes each message to the server at url.
func RelayTo(url string) string {
	path, args := programtest.Command("relay", url)
	words := []string{"stdio"}
	for _, word := range append([]string{path}, args...) {
		words = append(words, strconv.Quote(word))
	}
	return strings.Join(words, " ")
}
