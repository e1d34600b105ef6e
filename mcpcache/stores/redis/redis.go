// Package redis is the store "redis". It keeps snapshots in a Redis or Valkey server that several
// Caddys share. It knows nothing of what is in them.
package redis

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/options"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores"
)

func init() {
	caddy.RegisterModule(Redis{})
	redis.SetLogger(libraryLog{})
}

// libraryLog takes what the library of Redis logs. A link logs itself what operators need.
type libraryLog struct{}

// Printf implements the library's interface.
func (libraryLog) Printf(_ context.Context, format string, args ...any) {
	caddy.Log().Named(stores.Namespace+".redis").Debug("library", zap.String("text", fmt.Sprintf(format, args...)))
}

const (
	// DefaultTimeout is the default of the option timeout.
	DefaultTimeout = time.Second
	// expiry is after how long Redis forgets what nobody has saved again: those in use do
	// once a day.
	expiry = 8 * 24 * time.Hour
	// version begins every key, after the prefix: instances whose releases understand each
	// other have the same.
	version = "mc1:"
)

// Redis keeps snapshots in Redis 6 or later, or Valkey. Instances with the same server,
// database and prefix share them, and tell each other of changes. It is connected in the background:
// Caddy starts and serves without it.
//
// The user needs the commands EVAL, EVALSHA, HGET, HGETALL, HSET, HINCRBY, HDEL, HSTRLEN, GET, SET,
// DEL, EXPIRE, PEXPIRE, TIME, PUBLISH, SUBSCRIBE, PING and, to notice that Redis knows less than before,
// INFO; a cluster also asks for CLUSTER.
type Redis struct {
	// Where Redis is: `redis://HOST[:PORT][/DATABASE]`, or `rediss://` with TLS. The port is
	// 6379 by default. Several are nodes of one cluster, whose others are found by
	// themselves. Each has one host. Placeholders are replaced when the configuration is loaded, in all
	// texts.
	URLs []string `json:"urls,omitempty"`

	// The name to log in with; a URL may have it, too. Default: `default`, the user that
	// Redis means by a password alone.
	Username string `json:"username,omitempty"`

	// The password; a URL may have it, too. One of `password` and `password_file` may be given.
	Password string `json:"password,omitempty"`

	// The absolute path of a file that holds nothing but the password. It is read for each
	// connection, so that a new password is used once it is there.
	PasswordFile string `json:"password_file,omitempty"`

	// What the keys begin with, in a Redis that others use, too. Default: nothing
	Prefix string `json:"prefix,omitempty"`

	// How long to wait for a connection, and for an answer to a question of a few bytes.
	// Default: `1s`
	Timeout caddy.Duration `json:"timeout,omitempty"`

	// What `rediss://` trusts and presents.
	TLS *TLS `json:"tls,omitempty"`

	link *link
	key  string // of link in links; "" if it was given back
}

// TLS is what a connection with TLS trusts and presents.
type TLS struct {
	// The absolute path of a file with the certificates that sign that of Redis, in PEM.
	// Default: those that the machine trusts
	CA string `json:"ca,omitempty"`

	// The absolute paths of the client's certificate and its key, in PEM.
	Cert string `json:"cert,omitempty"`
	Key  string `json:"key,omitempty"`

	// What all certificates of Redis are held against. Default: the host in the URL. A node of a
	// cluster that was found by its address is held against that address, or any of the
	// hosts in the URLs.
	ServerName string `json:"server_name,omitempty"`
}

// links are the connections in use: one for each server and credential.
var links = caddy.NewUsagePool()

// CaddyModule returns the Caddy module information.
func (Redis) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: stores.Namespace + ".redis", New: func() caddy.Module { return new(Redis) }}
}

// Provision reads the options and the files that they name. Nothing is dialled.
func (s *Redis) Provision(ctx caddy.Context) error {
	if err := s.resolve(); err != nil {
		return err
	}
	to, err := s.dialling(ctx.Logger())
	if err != nil {
		return err
	}
	key := s.connection()
	made, _, err := links.LoadOrNew(key, func() (caddy.Destructor, error) { return newLink(to), nil })
	if err != nil {
		return fmt.Errorf("making a connection: %w", err)
	}
	s.key, s.link = key, made.(*link)
	s.link.logTo(ctx.Logger())
	return nil
}

// connection returns what stands for all that makes a connection.
func (s *Redis) connection() string {
	var t TLS
	if s.TLS != nil {
		t = *s.TLS
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q %d %t %q", s.URLs, s.Username, s.Password, s.PasswordFile, s.Timeout, s.TLS != nil, []string{t.CA, t.Cert, t.Key, t.ServerName}))
	return hex.EncodeToString(sum[:])
}

// Cleanup gives the connection back. It lasts a little longer, for what is saved last.
func (s *Redis) Cleanup() error {
	if s.key == "" {
		return nil
	}
	_, err := links.Delete(s.key)
	s.key = ""
	return err
}

// keyOf returns the key in Redis. All keys of an upstream are in one slot of a cluster.
func (s *Redis) keyOf(key string) string {
	place, rest, ok := strings.Cut(key, "/")
	if !ok {
		return s.Prefix + version + key
	}
	return s.Prefix + version + "{" + place + "}:" + rest
}

// sendCommand sends a command with one of the link's clients, and says what went wrong in the words of
// [stores].
func sendCommand[T any](ctx context.Context, l *link, which clientOf, command func(redis.UniversalClient) (T, error)) (answer T, err error) {
	client, err := which(l, ctx)
	if err != nil {
		return answer, err
	}
	err = l.careful(func() (err error) {
		answer, err = command(client)
		return err
	})
	if isReplica(err) {
		l.demoted(client, err)
	}
	return answer, inWords(err)
}

// commands are those that a user of Redis needs.
const commands = "EVAL, EVALSHA, GET, SET, DEL, HGET, HGETALL, HSET, HDEL, HINCRBY, HSTRLEN, EXPIRE, PEXPIRE, TIME, INFO, PUBLISH, SUBSCRIBE and PING"

// inWords returns an error of the library as [stores] has it.
func inWords(err error) error {
	_, answered := errors.AsType[redis.Error](err)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, redis.Nil):
		return fs.ErrNotExist
	case isReplica(err): // which the link tells operators
		return fmt.Errorf("%w: %w", stores.ErrAway, plainly(err))
	case redis.HasErrorPrefix(err, "WRONGTYPE"):
		return fmt.Errorf("%w: the key holds another type of value", stores.ErrForeign)
	case answered && strings.Contains(err.Error(), "can't run this command"):
		// in a script, Redis does not say which
		return fmt.Errorf("redis refuses: %w; its user needs %s", err, commands)
	case answered:
		return fmt.Errorf("redis refuses: %w", err)
	}
	return fmt.Errorf("%w: %w", stores.ErrAway, err)
}

// Load implements [stores.Store].
func (s *Redis) Load(ctx context.Context, key string) ([]byte, error) {
	value, err := sendCommand(ctx, s.link, (*link).client, func(c redis.UniversalClient) ([]byte, error) { return c.HGet(ctx, s.keyOf(key), "value").Bytes() })
	if err != nil {
		return nil, fmt.Errorf("loading %s: %w", key, err)
	}
	return value, nil
}

// Save implements [stores.Store].
func (s *Redis) Save(ctx context.Context, key string, value []byte) error {
	return s.save(ctx, key, "", value)
}

// Delete implements [stores.Store].
func (s *Redis) Delete(ctx context.Context, key string) error {
	_, err := sendCommand(ctx, s.link, (*link).client, func(c redis.UniversalClient) (int64, error) { return c.Del(ctx, s.keyOf(key)).Result() })
	if err != nil {
		return fmt.Errorf("deleting %s: %w", key, err)
	}
	return nil
}

// Size implements [stores.Sizer]. What is not there is as long as what is empty.
func (s *Redis) Size(ctx context.Context, key string) (int64, error) {
	size, err := sendCommand(ctx, s.link, (*link).client, func(c redis.UniversalClient) (int64, error) { return c.HStrLen(ctx, s.keyOf(key), "value").Result() })
	if err != nil {
		return 0, fmt.Errorf("looking at %s: %w", key, err)
	}
	return size, nil
}

// Now implements [stores.Shared].
func (s *Redis) Now(ctx context.Context) (now time.Time, within time.Duration, err error) {
	if _, err := s.link.client(ctx); err != nil {
		return time.Time{}, 0, err
	}
	now, within = s.link.now()
	return now, within, nil
}

// State implements [stores.Shared].
func (s *Redis) State() stores.State { return s.link.current() }

// UnmarshalCaddyfile sets up the store from Caddyfile tokens. Syntax:
//
//	store redis <url...> {
//		username      <name>        # default: default
//		password      <password>    # or in the URL
//		password_file <path>        # absolute; read for each connection
//		prefix        <text>        # what the keys begin with. Default: none
//		timeout       <duration>    # for a connection, and for a short answer. Default: 1s
//		tls {
//			ca   <path>             # what to trust. Default: what the machine does
//			cert <path>             # what to present, with its key
//			key  <path>
//			server_name <name>      # in the certificates. Default: the hosts in the URLs
//		}
//	}
func (s *Redis) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // consume store name
	if s.URLs = d.RemainingArgs(); len(s.URLs) == 0 {
		return d.Err("redis takes one URL or more, such as redis://10.0.0.5:6379")
	}
	err := options.Parse(d, map[string]options.Setter{
		"username":      options.String(&s.Username),
		"password":      options.String(&s.Password),
		"password_file": options.String(&s.PasswordFile),
		"prefix":        options.String(&s.Prefix),
		"timeout":       options.Duration(&s.Timeout),
		"tls":           s.tls,
	})
	if err != nil {
		return err
	}
	return options.Checked(d, s.check())
}

// tls reads the block of that name.
func (s *Redis) tls(d *caddyfile.Dispenser) error {
	if d.CountRemainingArgs() > 0 {
		return d.Err("tls takes a block with ca, cert, key and server_name, and no arguments")
	}
	s.TLS = new(TLS)
	return options.Parse(d, map[string]options.Setter{
		"ca":          options.String(&s.TLS.CA),
		"cert":        options.String(&s.TLS.Cert),
		"key":         options.String(&s.TLS.Key),
		"server_name": options.String(&s.TLS.ServerName),
	})
}

// Interface guards
var (
	_ stores.Fleet          = (*Redis)(nil)
	_ stores.Sizer          = (*Redis)(nil)
	_ caddy.Provisioner     = (*Redis)(nil)
	_ caddy.CleanerUpper    = (*Redis)(nil)
	_ caddyfile.Unmarshaler = (*Redis)(nil)
)
