// Package caddyfile reads the mcp_cache directive.
package caddyfile
