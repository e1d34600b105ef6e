package main

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

//go:embed server_typescript.mjs
var typeScriptServer []byte

const (
	typeScriptPackage = "@modelcontextprotocol/sdk@1.32.0"
	zodPackage        = "zod@4"
	installTimeout    = 3 * time.Minute
)

// typeScript sets up a server of the TypeScript SDK, if Node.js and npm are
// there. The SDK is installed into the user's cache folder, once.
func typeScript(ctx context.Context, s *stage) (*target, error) {
	if s.options.revision != legacy {
		return nil, &missingError{"this SDK speaks the legacy era only"}
	}
	node, err := exec.LookPath("node")
	if err != nil {
		return nil, &missingError{"node is not installed"}
	}
	folder, err := installTypeScript(ctx)
	if err != nil {
		return nil, &missingError{err.Error()}
	}
	// Modules are looked up from where the script is.
	script := filepath.Join(folder, "server.mjs")
	if err := os.WriteFile(script, typeScriptServer, 0o600); err != nil {
		return nil, fmt.Errorf("writing script: %w", err)
	}
	p, addr, err := s.once("ts-sdk", func(addr string) (*process, error) {
		p, _, err := startProgram(ctx, s.cores.server, "ts-sdk", node, script, addr, s.toolsFile())
		return p, err
	})
	if err != nil {
		return nil, err
	}
	return s.listTarget(ctx, target{addr: addr, server: p}, anyAnswer)
}

// installTypeScript returns the folder that has the SDK.
func installTypeScript(ctx context.Context) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding the cache folder: %w", err)
	}
	folder := filepath.Join(cache, "mcp-cache-bench", filepath.Base(typeScriptPackage))
	done := filepath.Join(folder, "installed")
	if _, err := os.Stat(done); err == nil {
		return folder, nil
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", fmt.Errorf("making the cache folder: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, installTimeout)
	defer cancel()
	npm := exec.CommandContext(ctx, "npm", "install", "--prefix", folder, "--no-audit", "--no-fund", "--ignore-scripts",
		typeScriptPackage, zodPackage)
	npm.Dir = folder
	npm.WaitDelay = stopTimeout
	if said, err := npm.CombinedOutput(); err != nil {
		return "", fmt.Errorf("installing the SDK with npm: %w: %.200s", err, said)
	}
	if err := os.WriteFile(done, nil, 0o600); err != nil {
		return "", fmt.Errorf("noting that the SDK is installed: %w", err)
	}
	return folder, nil
}
