// Package transports holds ways for Caddy's reverse_proxy to reach an upstream.
// They are modules of the namespace `http.reverse_proxy.transport`.
package transports
