package outbound

import (
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"

	"github.com/caddyserver/caddy/v2"
)

// caddyListens tells whether this Caddy listens on a TCP address: its admin
// endpoint, its sites, whatever else has its listeners from Caddy. Caddy knows
// them by the names that they were configured with, hence the look for all names
// that the address has here.
func caddyListens(target netip.AddrPort) bool {
	port := strconv.Itoa(int(target.Port()))
	for _, host := range listenHosts(carried(target.Addr().WithZone(""))) {
		for _, network := range []string{"tcp", "tcp4", "tcp6"} {
			if caddy.ListenerUsage(network, net.JoinHostPort(host, port)) > 0 {
				return true
			}
		}
	}
	return false
}

// listenHosts are the hosts by which a listener can be configured that takes
// connections to an address.
func listenHosts(ip netip.Addr) []string {
	if ip.IsUnspecified() { // connects to the loopback address of either family
		v4, v6 := netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()
		return append(listenHosts(v4), listenHosts(v6)...)
	}
	hosts := []string{ip.String(), ip.StringExpanded()}
	if ip.Is4() {
		hosts = append(hosts, "::ffff:"+ip.String())
	}
	if ip.IsLoopback() {
		hosts = append(hosts, "localhost")
	}
	if ip.IsLoopback() || isOurs(ip) {
		hosts = append(hosts, "", "0.0.0.0", "::")
		if name, err := os.Hostname(); err == nil {
			hosts = append(hosts, name)
		}
	}
	return hosts
}

// isOurs tells whether an address belongs to an interface of this host.
func isOurs(ip netip.Addr) bool {
	addresses, err := net.InterfaceAddrs()
	return err != nil || slices.ContainsFunc(addresses, func(a net.Addr) bool {
		network, ok := a.(*net.IPNet)
		if !ok {
			return false
		}
		own, ok := netip.AddrFromSlice(network.IP)
		return ok && own.Unmap() == ip
	})
}
