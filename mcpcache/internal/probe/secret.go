package probe

import (
	"bytes"
	"net/http"
	"strings"
)

// leastSecret is the length from which a part of a header's value is looked
// for in what the server says. Shorter ones could be words of a list.
const leastSecret = 8

// secretsOf returns what servers must not repeat in a report: the values of the
// callers' headers, and their last words, which are tokens.
func secretsOf(callers []http.Header) (secrets [][]byte) {
	for _, header := range callers {
		for _, values := range header {
			for _, value := range values {
				words := strings.Fields(value)
				for _, text := range []string{value, words[len(words)-1]} {
					if len(text) >= leastSecret {
						secrets = append(secrets, []byte(text))
					}
				}
			}
		}
	}
	return secrets
}

// hide puts asterisks in the place of the secrets.
func (c *client) hide(text []byte) []byte {
	for _, secret := range c.secrets {
		if bytes.Contains(text, secret) {
			text = bytes.ReplaceAll(text, secret, bytes.Repeat([]byte("*"), len(secret)))
		}
	}
	return text
}
