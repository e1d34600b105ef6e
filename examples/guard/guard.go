// Package guard is an example of a guard by somebody else: a Caddy module that
// gives the feed of mcp_cache its credential, here user and password of HTTP
// Basic authentication. Copy it into a module of your own and change what it
// does in Provision and Authorize.
package guard

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-mcp/mcp-cache/mcpcache/guards"
)

func init() {
	caddy.RegisterModule(Basic{})
}

// Basic presents a user and a password (RFC 7617).
type Basic struct {
	// The user's name. Placeholders such as `{env.MCP_USER}` are replaced when
	// the configuration is loaded. Required.
	User string `json:"user,omitempty"`

	// The password. Placeholders are replaced when the configuration is
	// loaded. Required.
	Password string `json:"password,omitempty"`

	user, password string
}

// CaddyModule returns the Caddy module information. The last part of the ID is
// the guard's name in the Caddyfile.
func (Basic) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  guards.Namespace + ".basic",
		New: func() caddy.Module { return new(Basic) },
	}
}

// Provision replaces the placeholders. It must be fast and ask no server:
// Caddy provisions a configuration before it knows whether it will be used. A
// guard that needs a server asks it in Authorize, or in a goroutine that its
// Cleanup ends.
func (b *Basic) Provision(caddy.Context) error {
	repl := caddy.NewReplacer()
	var err error
	if b.user, err = repl.ReplaceOrErr(b.User, true, true); err != nil {
		return fmt.Errorf("user: %w", err)
	}
	// Its error would repeat a password that is no placeholder.
	if b.password, err = repl.ReplaceOrErr(b.Password, true, true); err != nil {
		return errors.New("password: a placeholder in it is empty or unknown")
	}
	return nil
}

// Validate checks the settings.
func (b *Basic) Validate() error {
	switch {
	case b.User == "":
		return errors.New("user is required")
	case strings.Contains(b.user, ":"):
		return errors.New("user must not hold a colon")
	case b.Password == "":
		return errors.New("password is required")
	}
	return nil
}

// Authorize implements [guards.Guard]. An error that wraps
// [guards.ErrUnauthorized] shows as the state needs_authorization, any other
// as an upstream that cannot be reached. No error may hold a secret.
func (b *Basic) Authorize(_ context.Context, r *http.Request) error {
	r.SetBasicAuth(b.user, b.password)
	return nil
}

// Identity implements [guards.Guard]. It tells accounts apart: with another
// one, a reload starts a new feed with nothing from before. It is no secret and
// must not reveal any, and it is the same in every process.
func (b *Basic) Identity() string {
	sum := sha256.Sum256([]byte(b.user))
	return "basic-" + hex.EncodeToString(sum[:8])
}

// UnmarshalCaddyfile sets up the guard from Caddyfile tokens. Syntax:
//
//	basic <user> <password>
func (b *Basic) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // consume guard name
	args := d.RemainingArgs()
	if len(args) != 2 || d.NextBlock(0) {
		return d.Err("basic takes a user and a password") // an error must not repeat them
	}
	b.User, b.Password = args[0], args[1]
	return nil
}

// Interface guards. A guard that can replace a refused credential implements
// [guards.Renewer], too.
var (
	_ caddy.Provisioner     = (*Basic)(nil)
	_ caddy.Validator       = (*Basic)(nil)
	_ caddyfile.Unmarshaler = (*Basic)(nil)
	_ guards.Guard          = (*Basic)(nil)
)
