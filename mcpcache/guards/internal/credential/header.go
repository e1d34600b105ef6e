// Package credential knows where a credential stands in a request, and what a token may look like.
// It names the account behind a credential without telling the credential. It has the errors for
// credentials that a server cannot use.
//
// The guards share it. It knows nothing of where credentials come from.
package credential

import (
	"fmt"
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"
)

const (
	defaultHeader = "Authorization"
	defaultPrefix = "Bearer"
)

// reservedHeaders are set by HTTP or by MCP itself; a credential there would
// break the request or be dropped.
var reservedHeaders = []string{
	"Accept", "Accept-Encoding", "Connection", "Content-Encoding",
	"Content-Length", "Content-Type", "Expect", "Host", "Keep-Alive",
	"Last-Event-Id", "Mcp-Method", "Mcp-Name", "Mcp-Protocol-Version",
	"Mcp-Session-Id", "Proxy-Authorization", "Proxy-Connection", "Te",
	"Trailer", "Transfer-Encoding", "Upgrade",
}

// Header is the place of a credential on a request: the header and
// the word before the token.
type Header struct {
	Name   string
	Prefix string
}

// NewHeader applies the defaults: Authorization, and Bearer where
// prefix is nil. It must get checked values.
func NewHeader(name string, prefix *string) Header {
	h := Header{Name: http.CanonicalHeaderKey(name), Prefix: defaultPrefix}
	if name == "" {
		h.Name = defaultHeader
	}
	if prefix != nil {
		h.Prefix = *prefix
	}
	return h
}

// CheckHeader tells what is wrong with a configured header and prefix.
func CheckHeader(name string, prefix *string) error {
	if name != "" && !httpguts.ValidHeaderFieldName(name) {
		return fmt.Errorf("header: %q is not a header name", name)
	}
	for _, reserved := range reservedHeaders {
		if strings.EqualFold(name, reserved) {
			return fmt.Errorf("header: %s cannot carry a credential", reserved)
		}
	}
	if prefix != nil && *prefix != "" && !httpguts.ValidHeaderFieldName(*prefix) {
		return fmt.Errorf("prefix: %q is not one word (RFC 9110 section 11.1)", *prefix)
	}
	return nil
}

// Check finds the mistake of a token that was configured with its prefix.
func (h Header) Check(token string) error {
	word, _, found := strings.Cut(token, " ")
	if found && h.Prefix != "" && strings.EqualFold(word, h.Prefix) {
		return errTokenPrefix
	}
	return nil
}

// Value returns the header's value for a token.
func (h Header) Value(token string) string {
	if h.Prefix == "" {
		return token
	}
	return h.Prefix + " " + token
}

// Token returns the token in a header's value.
func (h Header) Token(value string) string {
	if h.Prefix == "" {
		return value
	}
	return strings.TrimPrefix(value, h.Prefix+" ")
}

// Set puts a token on a request, instead of whatever the header held.
func (h Header) Set(r *http.Request, token string) {
	r.Header.Set(h.Name, h.Value(token))
}

// Get returns what Set put on a request.
func (h Header) Get(r *http.Request) string {
	return r.Header.Get(h.Name)
}
