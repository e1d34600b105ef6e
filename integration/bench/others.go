package main

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
)

//go:embed typescript.mjs
var typeScriptServer []byte

// startTypeScript starts a server of the TypeScript SDK, which npm installs into
// the user's cache folder if it is not there yet.
func startTypeScript(ctx context.Context, addr, tools string) (*process, error) {
	// Modules are looked up from where the script is.
	script, err := inCache("server.mjs", typeScriptServer)
	if err != nil {
		return nil, err
	}
	err = install(ctx, "npm", "install", "--prefix", filepath.Dir(script), "--prefer-offline", "--no-audit", "--no-fund",
		"--ignore-scripts", "@modelcontextprotocol/sdk@1.32.0", "zod@4")
	if err != nil {
		return nil, err
	}
	return start(ctx, addr, "node", script, addr, tools)
}

//go:embed fastmcp.py
var fastMCPProxy []byte

// startFastMCP starts a proxy of FastMCP in front of an MCP server, with its caching or without.
func startFastMCP(ctx context.Context, addr, upstream string, caching bool) (*process, error) {
	arguments := []string{"http://" + upstream + "/mcp"}
	if caching {
		arguments = append(arguments, "caching")
	}
	return startPython(ctx, addr, "proxy.py", fastMCPProxy, arguments...)
}

//go:embed fastmcp_server.py
var fastMCPServer []byte

// startFastMCPServer starts a server of FastMCP.
func startFastMCPServer(ctx context.Context, addr, tools string) (*process, error) {
	return startPython(ctx, addr, "fastmcp_server.py", fastMCPServer, tools)
}

// startPython starts a script that needs FastMCP, with an address and other arguments. FastMCP is installed into
// the user's cache folder if it is not there yet.
func startPython(ctx context.Context, addr, name string, content []byte, arguments ...string) (*process, error) {
	script, err := inCache(name, content)
	if err != nil {
		return nil, err
	}
	environment := filepath.Join(filepath.Dir(script), "fastmcp")
	python := filepath.Join(environment, "bin", "python")
	if err := install(ctx, "python3", "-m", "venv", environment); err != nil {
		return nil, err
	}
	if err := install(ctx, python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "fastmcp==4.1.2"); err != nil {
		return nil, err
	}
	return start(ctx, addr, python, append([]string{script, addr}, arguments...)...)
}

// redisProgram is what the variable MCP_REDIS names, or redis-server.
func redisProgram() string { return cmp.Or(os.Getenv("MCP_REDIS"), "redis-server") }

// startRedis starts a Redis that keeps nothing.
func startRedis(ctx context.Context, addr string) (*process, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("reading address: %w", err)
	}
	const untilInputEnds = `"$@" >/dev/null & read -r _; kill $!`
	return start(ctx, addr, "sh", "-c", untilInputEnds, "sh", redisProgram(),
		"--bind", host, "--port", port, "--save", "")
}

// verifyRedis returns an error unless an instance keeps something in a Redis: its lists, and
// that it is a member.
func verifyRedis(ctx context.Context, addr string) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("asking Redis: %w", err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "DBSIZE\r\n"); err != nil {
		return fmt.Errorf("asking Redis: %w", err)
	}
	var keys int
	if _, err := fmt.Fscanf(conn, ":%d", &keys); err != nil || keys < 2 {
		return fmt.Errorf("redis has %d keys: %w", keys, cmp.Or(err, errors.New("want lists and members")))
	}
	return nil
}

// inCache writes a file into the folder for what others have made, and returns its
// path.
func inCache(name string, content []byte) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding the cache folder: %w", err)
	}
	path := filepath.Join(cache, "mcp-cache-bench", name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", fmt.Errorf("making the cache folder: %w", err)
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		return "", fmt.Errorf("writing script: %w", err)
	}
	return path, nil
}

// install runs a program that installs something.
func install(ctx context.Context, program string, args ...string) error {
	cmd := exec.CommandContext(ctx, program, args...)
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("installing with %s: %w: %.200s", program, err, said)
	}
	return nil
}
