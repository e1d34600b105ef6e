package client

import (
	"errors"
	"net/http"
	"strings"
	"testing"
)

// A credential that is put on requests on their way is hidden like a guard's: not
// if it is so short that it could be a word of a list.
func TestCredentialOfTheWayIsHidden(t *testing.T) {
	const token = "s3cr3t-0123456789abc"
	for where, answer := range map[string]script{
		"error":   raw(`{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"no rights for ` + token + `, visitor"}}`),
		"failure": func(http.ResponseWriter, *http.Request, call) error { return errors.New("visitor " + token) },
	} {
		s := newServer(modern)
		s.OnAll(answer)
		run(t, modern, s, func(w *world) {
			w.policy.Sent = http.Header{"Authorization": {"Bearer " + token}, "X-Api-Key": {"visitor"}} // that is short
			_, err := w.try()
			if text := err.Error(); strings.Contains(text, token) || !strings.Contains(text, "visitor") {
				t.Errorf("%s: %s", where, text)
			}
		})
	}
}
