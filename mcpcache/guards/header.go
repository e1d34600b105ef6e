package guards

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

// credentialHeader is the place of a credential on a request: the header and
// the word before the token.
type credentialHeader struct {
	name   string
	prefix string
}

// newCredentialHeader applies the defaults: Authorization, and Bearer where
// prefix is nil. It must get checked values.
func newCredentialHeader(name string, prefix *string) credentialHeader {
	h := credentialHeader{name: http.CanonicalHeaderKey(name), prefix: defaultPrefix}
	if name == "" {
		h.name = defaultHeader
	}
	if prefix != nil {
		h.prefix = *prefix
	}
	return h
}

// checkHeader tells what is wrong with a configured header and prefix.
func checkHeader(name string, prefix *string) error {
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

// check finds the mistake of a token that was configured with its prefix.
func (h credentialHeader) check(token string) error {
	word, _, found := strings.Cut(token, " ")
	if found && h.prefix != "" && strings.EqualFold(word, h.prefix) {
		return errTokenPrefix
	}
	return nil
}

// value returns the header's value for a token.
func (h credentialHeader) value(token string) string {
	if h.prefix == "" {
		return token
	}
	return h.prefix + " " + token
}

// token returns the token in a header's value.
func (h credentialHeader) token(value string) string {
	if h.prefix == "" {
		return value
	}
	return strings.TrimPrefix(value, h.prefix+" ")
}

// set puts a token on a request, instead of whatever the header held.
func (h credentialHeader) set(r *http.Request, token string) {
	r.Header.Set(h.name, h.value(token))
}

// get returns what set put on a request.
func (h credentialHeader) get(r *http.Request) string {
	return r.Header.Get(h.name)
}
