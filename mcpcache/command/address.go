package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"syscall"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/probe"
)

// freeAddress returns address, with a port if it asked for a free one, or an
// error if nobody can listen on it. Caddy itself would not notice that another
// Caddy has the address: it shares ports (SO_REUSEPORT) to reload smoothly.
func freeAddress(ctx context.Context, address string) (string, error) {
	if err := checkAddress(address); err != nil {
		return "", err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return "", fmt.Errorf("%s is in use: end what listens there, or choose another address, such as 127.0.0.1:9000", address)
	case err != nil:
		return "", err
	}
	host, _, _ := net.SplitHostPort(address)
	_, port, err := net.SplitHostPort(listener.Addr().String())
	return net.JoinHostPort(host, port), errors.Join(err, listener.Close())
}

// checkAddress returns an error if nobody could listen on an address.
func checkAddress(address string) error {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%q is not host:port or :port", address)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("port %q is not a number from 0 to 65535", port)
	}
	return nil
}

// adminAddress returns the usual address of the admin API if it is free, else
// one on a free loopback port.
func adminAddress(ctx context.Context, usual string) (string, error) {
	address, err := caddy.ParseNetworkAddress(usual)
	if err != nil {
		return "", err
	}
	if address.IsUnixNetwork() {
		return usual, nil
	}
	if _, err := freeAddress(ctx, address.JoinHostPort(0)); err == nil {
		return usual, nil
	}
	return freeAddress(ctx, "127.0.0.1:0")
}

// endpointURL returns the URL that clients on this machine use when the server
// listens on from and its upstream is at the URL to. It contains no single
// quote.
func endpointURL(from, to string) (string, error) {
	host, port, err := net.SplitHostPort(from)
	if err != nil {
		return "", err
	}
	if isEverywhere(host) {
		host = "127.0.0.1"
	}
	upstream, err := url.Parse(to)
	if err != nil {
		return "", err
	}
	endpoint := url.URL{Scheme: "http", Host: net.JoinHostPort(host, port), Path: cmp.Or(upstream.Path, probe.DefaultPath)}
	return endpoint.String(), nil
}

// isEverywhere reports whether who listens on that host listens on all addresses.
func isEverywhere(host string) bool {
	ip := net.ParseIP(host)
	return host == "" || ip != nil && ip.IsUnspecified()
}
