// Package bearer is the guard "bearer". It presents a token that somebody else has issued. It
// knows nothing of how the operator got the token.
package bearer

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-mcp/mcp-cache/mcpcache/guards"
	"github.com/caddy-mcp/mcp-cache/mcpcache/guards/internal/credential"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/options"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/placeholder"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/secretfile"
)

func init() {
	caddy.RegisterModule(Bearer{})
}

// Bearer presents a token that somebody else has issued: one that is written
// in the configuration, kept in the environment, or kept in a file that is read
// again when it changes, such as a projected Kubernetes service account token.
//
// A token file may be absent when Caddy starts; until it is there, the feed has
// no credential and its state is `needs_authorization`. A file that becomes
// unreadable, empty or malformed later leaves the last good token in use.
type Bearer struct {
	// The token. Placeholders such as `{env.MCP_TOKEN}` are replaced when
	// the configuration is loaded; an empty or unknown one is an error.
	// White space around the token is dropped. One of `token` and `file` is
	// required.
	Token string `json:"token,omitempty"`

	// The absolute path of a file that holds nothing but the token, of at
	// most 65536 bytes. It is looked at once a second at most while the feed
	// sends requests, and at once when the upstream refuses the token.
	// Placeholders are replaced when the configuration is loaded.
	File string `json:"file,omitempty"`

	// The request header that carries the token. Caddy hides the value of
	// `Authorization` in its log, of another header it does not: filter
	// `request>headers>NAME` out of the log then. Default: `Authorization`
	Header string `json:"header,omitempty"`

	// The word before the token. The empty string means none.
	// Default: `Bearer`
	Prefix *string `json:"prefix,omitempty"`

	credential.Account
	place credential.Header
	token string                   // with Token
	file  *secretfile.File[string] // with File
}

const (
	errLiteralRefused = credential.UnusableError("the upstream refused the configured token")
	errFileRefused    = credential.UnusableError("the upstream refused the token and its file holds no other")
)

// CaddyModule returns the Caddy module information.
func (Bearer) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  guards.Namespace + ".bearer",
		New: func() caddy.Module { return new(Bearer) },
	}
}

// Provision resolves the placeholders. It reads no file but those that
// placeholders name.
func (b *Bearer) Provision(ctx caddy.Context) error {
	b.place = credential.NewHeader(b.Header, b.Prefix)
	settings := map[string]string{"header": b.place.Name, "prefix": b.place.Prefix}
	var secrets []string
	if b.Token != "" {
		if err := b.provisionToken(); err != nil {
			return err
		}
		secrets = append(secrets, b.token)
	}
	if b.File != "" {
		path, err := placeholder.Path("file", b.File)
		if err != nil {
			return err
		}
		b.file = &secretfile.File[string]{
			Path: path, What: "token file", Parse: b.parse, Log: ctx.Logger(),
		}
		settings["file"] = path
	}
	var err error
	b.Account, err = credential.NewAccount("bearer", settings, secrets...)
	return err
}

func (b *Bearer) provisionToken() error {
	resolved, err := placeholder.Resolve("token", b.Token)
	if err != nil {
		return err
	}
	if b.token, err = b.parse([]byte(resolved)); err != nil {
		return fmt.Errorf("token: %w", err)
	}
	return nil
}

// parse reads the token out of the configured value or the file's content.
func (b *Bearer) parse(content []byte) (string, error) {
	token, err := credential.CleanToken(string(content))
	if err != nil {
		return "", err
	}
	return token, b.place.Check(token)
}

// Validate checks that the settings fit together.
func (b *Bearer) Validate() error {
	if b.Token == "" && b.File == "" {
		return errors.New("one of token and file is required")
	}
	if b.Token != "" && b.File != "" {
		return errors.New("token and file cannot be used together")
	}
	return credential.CheckHeader(b.Header, b.Prefix)
}

// Authorize implements [guards.Guard].
func (b *Bearer) Authorize(_ context.Context, r *http.Request) error {
	token := b.token
	if b.file != nil {
		var err error
		if token, err = b.file.Get(); err != nil {
			return fmt.Errorf("%w: %w", guards.ErrUnauthorized, err)
		}
	}
	b.place.Set(r, token)
	return nil
}

// Renew implements [guards.Renewer]. It reads the file again, and fails with
// [guards.ErrUnauthorized] if there is no other token in it. A literal token cannot be
// renewed.
func (b *Bearer) Renew(_ context.Context, used string, _ guards.Challenge) error {
	if b.file == nil {
		return errLiteralRefused
	}
	token, err := b.file.Reload()
	if err != nil {
		return fmt.Errorf("%w: %w", guards.ErrUnauthorized, err)
	}
	if b.place.Value(token) == used {
		return errFileRefused
	}
	return nil
}

// Credential implements [guards.Renewer].
func (b *Bearer) Credential(r *http.Request) string { return b.place.Get(r) }

// UnmarshalCaddyfile sets up the guard from Caddyfile tokens. Syntax:
//
//	bearer [<token>] {
//		token  <token>       # literal or placeholder
//		file   <path>        # absolute; read again when it changes
//		header <name>        # default: Authorization
//		prefix <word>|off    # the word before the token. Default: Bearer
//	}
//
// One of token and file is required, once. An empty prefix is the same as off.
func (b *Bearer) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	if err := options.Guard(d, &b.Token, map[string]options.Setter{
		"token":  options.String(&b.Token),
		"file":   options.String(&b.File),
		"header": options.String(&b.Header),
		"prefix": options.Prefix(&b.Prefix),
	}); err != nil {
		return err
	}
	return options.Checked(d, b.Validate())
}

// Interface guards
var (
	_ caddy.Provisioner     = (*Bearer)(nil)
	_ caddy.Validator       = (*Bearer)(nil)
	_ caddyfile.Unmarshaler = (*Bearer)(nil)
	_ guards.Guard          = (*Bearer)(nil)
	_ guards.Renewer        = (*Bearer)(nil)
)
