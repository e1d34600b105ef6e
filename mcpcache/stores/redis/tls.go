package redis

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/secretfile"
)

// check returns an error if the options do not fit together. t may be nil.
func (t *TLS) check() error {
	switch {
	case t == nil:
		return nil
	case (t.Cert == "") != (t.Key == ""):
		return errors.New("tls: cert and key are given together")
	case strings.Contains(t.ServerName, "{"): // what it stands for is not known yet
		return nil
	case net.ParseIP(t.ServerName) == nil && strings.ContainsAny(t.ServerName, ":/"):
		return fmt.Errorf("tls server_name: %s: want the name in the certificate alone, such as redis.example.com", t.ServerName)
	}
	return nil
}

// config returns the settings of connections with TLS. t may be nil.
func (t *TLS) config() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if t == nil {
		return config, nil
	}
	if t.CA != "" {
		content, err := os.ReadFile(t.CA)
		if err != nil {
			return nil, fmt.Errorf("tls ca: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(content) {
			return nil, fmt.Errorf("tls ca: %s has no certificate in PEM", t.CA)
		}
	}
	if t.Cert != "" {
		pair, err := secretfile.LoadKeyPair(t.Cert, t.Key)
		if err != nil {
			return nil, fmt.Errorf("tls cert and key: %w", err)
		}
		config.Certificates = []tls.Certificate{*pair}
	}
	return config, nil
}

// secure makes a connection one with TLS.
func (d *dialling) secure(ctx context.Context, c net.Conn, address string) (net.Conn, error) {
	host, _, _ := net.SplitHostPort(address)
	names := d.names(host)
	config := d.tls.Clone()
	config.ServerName = names[0]
	if len(names) > 1 {
		config.InsecureSkipVerify = true // VerifyConnection does all of it, for any of the names
		config.VerifyConnection = func(state tls.ConnectionState) error {
			return verify(state.PeerCertificates, config.RootCAs, names)
		}
	}
	secured := tls.Client(c, config)
	err := secured.HandshakeContext(ctx)
	if _, unverified := errors.AsType[*tls.CertificateVerificationError](err); unverified {
		hint := ""
		if _, otherName := errors.AsType[x509.HostnameError](err); otherName {
			hint = "; if it is for another name, set server_name"
		}
		return nil, fmt.Errorf("the certificate of redis at %s is held against %s%s: %w", address, strings.Join(names, " and "), hint, err)
	}
	return secured, err
}

// names returns what the certificate of a host is held against: one of them has to be in it. A host
// of the URLs is held against its own name. Nodes of a cluster are found by their addresses. Often
// certificates have no address, but the names by which operators know the cluster.
func (d *dialling) names(host string) []string {
	if d.serverName != "" {
		return []string{d.serverName}
	}
	names := []string{host}
	for _, address := range d.addresses {
		configured, _, _ := net.SplitHostPort(address)
		if configured == host || net.ParseIP(host) == nil {
			return names[:1]
		}
		if !slices.Contains(names, configured) {
			names = append(names, configured)
		}
	}
	return names
}

// verify does what crypto/tls does by itself where there is one name: a certificate that authorities
// do not vouch for, for a server, at this time, and for one of the names is an error.
func verify(chain []*x509.Certificate, roots *x509.CertPool, names []string) (err error) {
	if len(chain) == 0 {
		return errors.New("redis has presented no certificate")
	}
	options := x509.VerifyOptions{Roots: roots, Intermediates: x509.NewCertPool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	for _, intermediate := range chain[1:] {
		options.Intermediates.AddCert(intermediate)
	}
	for _, name := range names {
		options.DNSName = name
		_, err = chain[0].Verify(options)
		if _, otherName := errors.AsType[x509.HostnameError](err); !otherName {
			break
		}
	}
	if err != nil {
		return &tls.CertificateVerificationError{UnverifiedCertificates: chain, Err: err}
	}
	return nil
}
