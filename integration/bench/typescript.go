package main

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

//go:embed typescript.mjs
var typeScriptServer []byte

// startTypeScript starts a server of the TypeScript SDK, which npm installs into
// the user's cache folder if it is not there yet.
func startTypeScript(ctx context.Context, addr, tools string) (*process, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, fmt.Errorf("finding the cache folder: %w", err)
	}
	folder := filepath.Join(cache, "mcp-cache-bench")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("making the cache folder: %w", err)
	}
	npm := exec.CommandContext(ctx, "npm", "install", "--prefix", folder, "--prefer-offline", "--no-audit", "--no-fund",
		"--ignore-scripts", "@modelcontextprotocol/sdk@1.32.0", "zod@4")
	if said, err := npm.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("installing the TypeScript SDK with npm: %w: %.200s", err, said)
	}
	// Modules are looked up from where the script is.
	script := filepath.Join(folder, "server.mjs")
	if err := os.WriteFile(script, typeScriptServer, 0o600); err != nil {
		return nil, fmt.Errorf("writing script: %w", err)
	}
	return start(ctx, addr, "node", script, addr, tools)
}
