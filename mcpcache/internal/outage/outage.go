// Package outage says in plain words why an HTTP request has got no answer. It looks at the errors
// that an error wraps. If an error wraps nothing, as those of Caddy's reverse_proxy, it looks at
// the text. It does not matter who sent the request, and through which handler.
package outage

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// Words says in a few words why a request, whose answer was waited for that long, has got
// none; "" if err is of another kind.
func Words(err error, waited time.Duration) string {
	text := Cause(err)
	if network, ok := errors.AsType[*net.OpError](err); ok && network.Op == "dial" {
		text = network.Error()
	}
	timeout, _ := errors.AsType[net.Error](err)
	switch {
	case IsTLS(err):
		return tlsWords(err)
	case dialed.MatchString(text):
		return dialWords(text)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("no answer within %s", waited)
	case timeout != nil && timeout.Timeout():
		return "no answer in time"
	case IsCut(err):
		return "the connection was cut"
	case IsNotHTTP(err):
		return "what listens there does not speak HTTP"
	}
	return ""
}

// dialed is the text of an error of package net for a connection that was not opened: to
// an address, or to a name that was not found.
var dialed = regexp.MustCompile(`^dial \S+?(?: (\S+))?: (?:lookup (\S+?)(?: on \S+)?: )?(?:connect: )?(.+)$`)

func dialWords(text string) string {
	found := dialed.FindStringSubmatch(text)
	address, name, why := found[1], found[2], found[3]
	switch {
	case name != "":
		return fmt.Sprintf("the host name %s cannot be found (%s)", name, why)
	case why == "i/o timeout":
		return "no connection in time to " + address
	case address == "":
		return why
	}
	return why + " at " + address
}

// IsTLS reports whether err says that no TLS connection came about.
func IsTLS(err error) bool {
	_, verification := errors.AsType[*tls.CertificateVerificationError](err)
	_, header := errors.AsType[tls.RecordHeaderError](err)
	network, _ := errors.AsType[*net.OpError](err)
	// An alert of TLS is of a type that crypto/tls keeps for itself.
	alert := network != nil && (network.Op == "remote error" || network.Op == "local error")
	return verification || header || alert || IsPlainHTTP(err)
}

// IsPlainHTTP reports whether a server answered a TLS handshake in HTTP: the
// only sign of that is net/http's text.
func IsPlainHTTP(err error) bool {
	return strings.Contains(err.Error(), "server gave HTTP response to HTTPS client")
}

// IsCut reports whether err says that the connection ended before the answer did.
func IsCut(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET)
}

// IsNotHTTP reports whether err says that a server answered in another protocol.
func IsNotHTTP(err error) bool { return strings.Contains(err.Error(), "malformed HTTP") }

// Certificate says why the certificate of a server is not accepted, as a clause, and what
// to do; ok is false if it was not the certificate that prevented a TLS connection.
func Certificate(err error) (why, do string, ok bool) {
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &unknown):
		return "it is signed by an authority that this machine does not know",
			"name its CA in SSL_CERT_FILE for this command, and in tls_trust_pool of reverse_proxy for the cache", true
	case errors.As(err, &name):
		return "it is for another name", "use the name that it is for", true
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "it has expired, or is not valid yet", "renew it", true
	}
	_, verification := errors.AsType[*tls.CertificateVerificationError](err)
	return Cause(err), "correct its certificate", verification
}

func tlsWords(err error) string {
	if IsPlainHTTP(err) {
		return "it speaks plain HTTP, not TLS"
	}
	why, _, certificate := Certificate(err)
	if !certificate {
		return "no TLS connection (" + strings.TrimPrefix(why, "tls: ") + ")"
	}
	return "the certificate is not accepted, because " + why
}

// Cause returns the end of an error's text: without what the errors around the innermost
// have put in front. What one has put behind, or hidden, stays.
func Cause(err error) string {
	for {
		inner := errors.Unwrap(err)
		if inner == nil || !strings.HasSuffix(err.Error(), inner.Error()) {
			return err.Error()
		}
		err = inner
	}
}
