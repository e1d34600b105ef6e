package outbound

import (
	"context"
	"strings"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/redact"
)

const (
	// longestForeign is how much of a server's text an error may show, in bytes.
	longestForeign = 200

	// longestProblem is how much of an error's text is shown, in bytes: what
	// libraries say may repeat an answer or a certificate.
	longestProblem = 500
)

type secretsKey struct{}

// Hiding returns a context in which Shown and the errors of a Client hide the secrets.
func Hiding(ctx context.Context, secrets *redact.Secrets) context.Context {
	return context.WithValue(ctx, secretsKey{}, secrets)
}

func secretsOf(ctx context.Context) *redact.Secrets {
	secrets, _ := ctx.Value(secretsKey{}).(*redact.Secrets)
	return secrets
}

// Shown is what an error may show of foreign text. Secrets are hidden first: of
// a text that has been cut, half a secret would stay.
func Shown(ctx context.Context, text string) string { return Clip(secretsOf(ctx).Text(text)) }

// Clip cuts foreign text down to what an error may show: one line of printable
// ASCII.
func Clip(text string) string { return cut(text, longestForeign) }

func cut(text string, longest int) string {
	over := len(text) > longest
	if over {
		text = text[:longest]
	}
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, text)
	if over {
		text += "..."
	}
	return text
}

// brief returns err, with its text cut if that is long, and without secrets.
func brief(ctx context.Context, err error) error {
	err = secretsOf(ctx).Error(err)
	text := err.Error()
	if len(text) <= longestProblem {
		return err
	}
	return &briefError{text: cut(text, longestProblem), cause: err}
}

// briefError is an error of which no more than the beginning is shown.
type briefError struct {
	text  string
	cause error
}

func (e *briefError) Error() string { return e.text }

func (e *briefError) Unwrap() error { return e.cause }
