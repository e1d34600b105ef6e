package credential

import (
	"errors"
	"fmt"
	"strings"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/secretfile"
)

var (
	errTokenEmpty  = errors.New("token is empty")
	errTokenBytes  = errors.New("token holds characters that a header cannot carry (line breaks, control or non-ASCII characters)")
	errTokenPrefix = errors.New("token already starts with the prefix")
	errTokenLength = fmt.Errorf("token is longer than %d bytes", secretfile.MaxSize)
)

// CleanToken trims white space off a token and checks that a header can carry
// it: visible ASCII and inner spaces. RFC 6750 section 2.1 allows less, but
// other schemes than Bearer allow more.
func CleanToken(raw string) (string, error) {
	token := strings.TrimSpace(raw)
	if token == "" {
		return "", errTokenEmpty
	}
	if len(token) > secretfile.MaxSize {
		return "", errTokenLength
	}
	for i := range len(token) {
		if token[i] < ' ' || token[i] > '~' {
			return "", errTokenBytes
		}
	}
	return token, nil
}
