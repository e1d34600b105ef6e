package redis

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/redistest"
)

func TestRealTLS(t *testing.T) {
	authority := fixture.NewAuthority(t)
	cert, key := authority.Files(authority.Issue(time.Now().Add(time.Hour)))
	redis := redistest.NewDown(t, "--port", "0")
	redis.Configure("--tls-port", redis.Port, "--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", authority.File)
	redis.Start()
	url := "rediss://" + redis.Addr
	s := connect(t, &Redis{URLs: []string{url}, TLS: &TLS{CA: authority.File, Cert: cert, Key: key}})
	if err := s.Save(t.Context(), "a/b", []byte("x")); err != nil {
		t.Error(err)
	}
	for want, other := range map[string]*Redis{
		"certificate": {URLs: []string{url}, TLS: &TLS{CA: authority.File}}, // presents none
		"unknown":     {URLs: []string{url}},                                // trusts none such
	} {
		wantRefused(t, other, want)
	}
}

// wantRefused connects a store, which is away for a reason that has that text.
func wantRefused(t *testing.T, s *Redis, want string) {
	t.Helper()
	if err := provision(t, s); err != nil {
		t.Fatal(err)
	}
	_, _ = s.Size(t.Context(), "none")
	awaitState(t, s, want)
}

// tlsNode starts a node of a cluster with that certificate. It returns the port for TLS as well.
func tlsNode(t *testing.T, authority *fixture.Authority, until time.Time, names ...string) (node *redistest.Server, port, bus string) {
	t.Helper()
	cert, key := authority.Files(authority.IssueTo(until, names...))
	_, port, _ = net.SplitHostPort(fixture.FreeAddr(t))
	node, bus = redistest.NewNode(t, "--tls-port", port, "--tls-cluster", "yes", "--tls-auth-clients", "no",
		"--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", authority.File)
	return node, port, bus
}

// tlsCluster starts two nodes, whose certificates have those names and end then. The second one has
// all keys if that is wanted, or else each has half of them. They find each other by their addresses.
func tlsCluster(t *testing.T, authority *fixture.Authority, all bool, until time.Time, first, second string) (urls []string) {
	t.Helper()
	hour := time.Now().Add(time.Hour)
	one, onePort, _ := tlsNode(t, authority, hour, first)
	other, otherPort, bus := tlsNode(t, authority, until, second)
	if all {
		other.Do("CLUSTER", "ADDSLOTSRANGE", "0", "16383")
	} else {
		one.Do("CLUSTER", "ADDSLOTSRANGE", "0", "8000")
		other.Do("CLUSTER", "ADDSLOTSRANGE", "8001", "16383")
	}
	one.Do("CLUSTER", "MEET", "127.0.0.1", otherPort, bus)
	awaitCluster(t, one, other)
	return []string{"rediss://localhost:" + onePort, "rediss://localhost:" + otherPort}
}

// TestRealTLSCluster has nodes whose certificates have a name and no address, while they are found by
// their addresses. They are held against the name in the URLs, or that of the option.
func TestRealTLSCluster(t *testing.T) {
	authority := fixture.NewAuthority(t)
	hour := time.Now().Add(time.Hour)
	named := tlsCluster(t, authority, false, hour, "localhost", "localhost")
	others := tlsCluster(t, authority, false, hour, "redis.test", "redis.test")
	for name, s := range map[string]*Redis{
		"one URL":           {URLs: named[:1], TLS: &TLS{CA: authority.File}},
		"all URLs":          {URLs: named, TLS: &TLS{CA: authority.File}},
		"a name of its own": {URLs: others, TLS: &TLS{CA: authority.File, ServerName: "redis.test"}},
	} {
		t.Run(name, func(t *testing.T) {
			connect(t, s)
			for i := range 20 { // at both nodes
				key := fmt.Sprintf("%d/x", i)
				if err := s.Save(t.Context(), key, []byte("x")); err != nil {
					t.Error(err)
				}
				if _, err := s.Join(t.Context(), fmt.Sprint(i), "one", time.Hour); err != nil {
					t.Error(err)
				}
			}
		})
	}
	const hint = "; if it is for another name, set server_name: "
	wantRefused(t, &Redis{URLs: others, TLS: &TLS{CA: authority.File}}, "is held against localhost"+hint+"tls: failed to verify certificate: x509: certificate is valid for redis.test, not localhost")
	wantRefused(t, &Redis{URLs: named, TLS: &TLS{CA: authority.File, ServerName: "redis.test"}}, "is held against redis.test"+hint+"tls: failed to verify certificate: x509: certificate is valid for localhost, not redis.test")
}

// TestRealTLSClusterIsWrong has a node that is found by its address, with a certificate that is
// good for none of the names.
func TestRealTLSClusterIsWrong(t *testing.T) {
	authority := fixture.NewAuthority(t)
	hour := time.Now().Add(time.Hour)
	urls := tlsCluster(t, authority, true, hour, "localhost", "elsewhere.test")
	wantRefused(t, &Redis{URLs: urls[:1], TLS: &TLS{CA: authority.File}},
		"is held against 127.0.0.1 and localhost; if it is for another name, set server_name: tls: failed to verify certificate: x509: certificate is valid for elsewhere.test, not localhost")
}

// TestCertificates connects to servers with all sorts of certificates: a node that is found by its
// address has the same checks as a host of the URLs, but for the names.
func TestCertificates(t *testing.T) {
	authority, foreign := fixture.NewAuthority(t), fixture.NewAuthority(t)
	hour, past := time.Now().Add(time.Hour), time.Now().Add(-time.Hour)
	clients := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	const found, configured = "127.0.0.1", "localhost"
	for name, tt := range map[string]struct {
		host, serverName string
		cert             *tls.Certificate
		want             string // "": it is taken
	}{
		"its address":               {found, "", authority.IssueTo(hour, found), ""},
		"a host of the URLs":        {found, "", authority.IssueTo(hour, "other.test"), ""},
		"the other host":            {found, "", authority.IssueTo(hour, configured), ""},
		"of an intermediate":        {found, "", authority.Delegate().IssueTo(hour, "other.test"), ""},
		"server_name":               {found, "given.test", authority.IssueTo(hour, "given.test"), ""},
		"another name":              {found, "", authority.IssueTo(hour, "elsewhere.test"), "127.0.0.1 and localhost and other.test; if"},
		"another address":           {found, "", authority.IssueTo(hour, "127.0.0.2"), "127.0.0.1 and localhost and other.test; if"},
		"not server_name":           {found, "given.test", authority.IssueTo(hour, found, configured), "held against given.test; if"},
		"expired":                   {found, "", authority.IssueTo(past, configured), "expired"},
		"of somebody":               {found, "", foreign.IssueTo(hour, configured), "unknown authority"},
		"of somebody's delegate":    {found, "", foreign.Delegate().IssueTo(hour, configured), "unknown authority"},
		"for clients":               {found, "", authority.IssueFor(hour, clients, configured), "incompatible key usage"},
		"the host's own":            {configured, "", authority.IssueTo(hour, configured), ""},
		"of its address":            {configured, "", authority.IssueTo(hour, found), "held against localhost; if"},
		"of the other host":         {configured, "", authority.IssueTo(hour, "other.test"), "held against localhost; if"},
		"the host's own for server": {configured, "given.test", authority.IssueTo(hour, configured), "held against given.test; if"},
	} {
		t.Run(name, func(t *testing.T) {
			listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{*tt.cert}})
			if err != nil {
				t.Fatal(err)
			}
			defer listener.Close()
			go func() {
				if c, err := listener.Accept(); err == nil {
					_ = c.(*tls.Conn).Handshake()
					_ = c.Close()
				}
			}()
			s := &Redis{URLs: []string{"rediss://localhost", "rediss://other.test"}, TLS: &TLS{CA: authority.File, ServerName: tt.serverName}}
			to, err := s.dialling(zap.NewNop())
			if err != nil {
				t.Fatal(err)
			}
			to.timeout = patience
			_, port, _ := net.SplitHostPort(listener.Addr().String())
			c, err := to.dial(t.Context(), "tcp", net.JoinHostPort(tt.host, port))
			if err == nil {
				_ = c.Close()
			}
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// TestNames: the certificate of a host is held against its own name, and that of a node found by its
// address also against the hosts of the URLs.
func TestNames(t *testing.T) {
	for _, tt := range []struct {
		urls       []string
		serverName string
		host       string
		want       []string
	}{
		{[]string{"rediss://a.test", "rediss://b.test:1"}, "", "a.test", []string{"a.test"}},
		{[]string{"rediss://a.test", "rediss://b.test:1"}, "", "c.test", []string{"c.test"}},
		{[]string{"rediss://a.test", "rediss://b.test:1", "rediss://b.test:2"}, "", "10.0.0.1", []string{"10.0.0.1", "a.test", "b.test"}},
		{[]string{"rediss://a.test", "rediss://10.0.0.1"}, "", "10.0.0.1", []string{"10.0.0.1"}},
		{[]string{"rediss://a.test", "rediss://10.0.0.1"}, "", "10.0.0.2", []string{"10.0.0.2", "a.test", "10.0.0.1"}},
		{[]string{"rediss://a.test"}, "", "fd00::1", []string{"fd00::1", "a.test"}},
		{[]string{"rediss://a.test"}, "b.test", "a.test", []string{"b.test"}},
		{[]string{"rediss://a.test"}, "b.test", "10.0.0.1", []string{"b.test"}},
	} {
		to, err := parseURLs(tt.urls)
		if err != nil {
			t.Fatal(err)
		}
		d := &dialling{addresses: to.addresses, serverName: tt.serverName}
		if got := d.names(tt.host); !slices.Equal(got, tt.want) {
			t.Errorf("with %v and %q, %s is held against %v, want %v", tt.urls, tt.serverName, tt.host, got, tt.want)
		}
	}
}
