package redis

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/budget"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/placeholder"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/secretfile"
)

const (
	defaultPort = "6379"
	// answerTimeout is how long Redis may take for a list of many megabytes.
	answerTimeout = 10 * time.Second
	// poolSize is how many connections there are at most to each node.
	poolSize = 8
)

// resolve replaces the placeholders.
func (s *Redis) resolve() error {
	var r placeholder.Resolver
	s.URLs = r.List("urls", s.URLs)
	r.Text("username", &s.Username)
	r.Text("password", &s.Password)
	r.Path("password_file", &s.PasswordFile)
	r.Text("prefix", &s.Prefix)
	if s.TLS != nil {
		resolved := *s.TLS
		r.Path("tls ca", &resolved.CA)
		r.Path("tls cert", &resolved.Cert)
		r.Path("tls key", &resolved.Key)
		r.Text("tls server_name", &resolved.ServerName)
		s.TLS = &resolved
	}
	return r.Err
}

// target is where URLs lead.
type target struct {
	addresses          []string // host:port
	database           int
	tls                bool
	username, password string
}

// check returns an error if the options do not fit together. What placeholders stand for is
// not known yet in a Caddyfile.
func (s *Redis) check() error {
	if s.Timeout < 0 {
		return fmt.Errorf("timeout: %s is not a duration of more than 0", time.Duration(s.Timeout))
	}
	if strings.Contains(strings.Join(s.URLs, ""), "{") {
		return nil
	}
	to, err := parseURLs(s.URLs)
	if err != nil {
		return err
	}
	given := 0
	for _, one := range []string{to.password, s.Password, s.PasswordFile} {
		if one != "" {
			given++
		}
	}
	switch {
	case given > 1:
		return errors.New("the password is given twice: leave one of password, password_file and that in the URL")
	case to.username != "" && s.Username != "":
		return errors.New("username: the URL has one, too: leave one of them out")
	case s.TLS != nil && !to.tls:
		return errors.New("tls: it is for URLs that begin with rediss://")
	}
	return s.TLS.check()
}

// parseURLs returns where URLs lead, all of which have to say the same of everything but
// the node.
func parseURLs(texts []string) (target, error) {
	if len(texts) == 0 {
		return target{}, errors.New("urls: want one or more, such as redis://10.0.0.5:6379")
	}
	var all target
	for i, text := range texts {
		one, err := parseURL(text)
		if err != nil {
			return target{}, err
		}
		if i == 0 {
			all = one
			continue
		}
		if one.tls != all.tls || one.database != all.database || one.username != all.username || one.password != all.password {
			return target{}, errors.New("urls: they are nodes of one cluster, and differ in more than the node")
		}
		all.addresses = append(all.addresses, one.addresses...)
	}
	if len(texts) > 1 && all.database != 0 {
		return target{}, errors.New("urls: they are nodes of one cluster, which has no database but 0")
	}
	return all, nil
}

// hostPort is a host of a URL, with or without a port.
var hostPort = regexp.MustCompile(`^(\[[0-9A-Fa-f:.]+\]|[\w.-]+)(:\d+)?$`)

// checkSingle returns an error if one URL names several hosts, as other programs take them. The error
// shows how these are written here, unless a part of them might be a password's.
func checkSingle(text string) error {
	scheme, rest, _ := strings.Cut(text, "://")
	rest = strings.ReplaceAll(rest, scheme+"://", "") // of the others
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		rest = rest[:end]
	}
	at := strings.LastIndexByte(rest, '@') + 1
	user, hosts := rest[:at], rest[at:]
	_, others, _ := strings.Cut(strings.TrimSuffix(user, "@"), "@")
	if scheme != "redis" && scheme != "rediss" || !strings.ContainsAny(hosts+others, ", \t\n") {
		return nil
	}
	const several = "urls: one names several hosts; several nodes are several URLs"
	var shown []string
	for _, host := range strings.FieldsFunc(hosts, func(r rune) bool { return strings.ContainsRune(", \t\n", r) }) {
		if !hostPort.MatchString(host) || strings.Contains(user, ",") {
			return fmt.Errorf("%s: %s://HOST:PORT %[2]s://HOST:PORT; what is special in a password is percent-encoded", several, scheme)
		}
		shown = append(shown, scheme+"://"+host)
	}
	same := ""
	if user != "" {
		same = ", each with the same username and password"
	}
	return fmt.Errorf("%s: %s%s", several, strings.Join(shown, " "), same)
}

// parseURL reads one URL. Its errors show nothing of a password.
func parseURL(text string) (target, error) {
	if err := checkSingle(text); err != nil {
		return target{}, err
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "redis" && u.Scheme != "rediss" || u.Hostname() == "" { // it may be a password
		return target{}, errors.New("urls: want redis://HOST:PORT or rediss://HOST:PORT, and one is something else; what is special in a password is percent-encoded")
	}
	shown := u.Scheme + "://" + u.Host
	if u.RawQuery != "" || u.Fragment != "" {
		return target{}, fmt.Errorf("urls: %s: it has more than a host and a database; the rest are options of the store", shown)
	}
	to := target{addresses: []string{net.JoinHostPort(u.Hostname(), defaultPort)}, tls: u.Scheme == "rediss", username: u.User.Username()}
	to.password, _ = u.User.Password()
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return target{}, fmt.Errorf("urls: %s: %s is no port", shown, port)
		}
		to.addresses[0] = net.JoinHostPort(u.Hostname(), port)
	}
	if database := strings.Trim(u.Path, "/"); database != "" {
		if to.database, err = strconv.Atoi(database); err != nil || to.database < 0 {
			return target{}, fmt.Errorf("urls: %s: what follows the host is the number of a database, such as /1", shown)
		}
	}
	return to, nil
}

// dialling is how Redis is connected.
type dialling struct {
	addresses   []string
	database    int
	credentials credentials
	tls         *tls.Config // nil: without
	serverName  string      // what certificates are held against; "": the nodes' own names
	timeout     time.Duration
	probe       string         // a key that is never there
	memory      *budget.Budget // for answers on their way
}

// credentials returns the name and the password for a connection that is being made.
type credentials func(context.Context) (username, password string, err error)

// dialling returns how Redis is connected. It reads the files that options name.
func (s *Redis) dialling(log *zap.Logger) (*dialling, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	to, err := parseURLs(s.URLs)
	if err != nil {
		return nil, err
	}
	username, password := cmp.Or(s.Username, to.username), cmp.Or(s.Password, to.password)
	d := &dialling{
		addresses: to.addresses, database: to.database, timeout: cmp.Or(time.Duration(s.Timeout), DefaultTimeout),
		probe: s.keyOf("probe"), memory: budget.New(maxMessage),
		credentials: func(context.Context) (string, string, error) { return username, password, nil },
	}
	if s.PasswordFile != "" {
		if d.credentials, err = credentialsFrom(s.PasswordFile, username, log); err != nil {
			return nil, err
		}
	}
	if to.tls {
		d.tls, err = s.TLS.config()
		if s.TLS != nil {
			d.serverName = s.TLS.ServerName
		}
	}
	return d, err
}

// client returns a client of one Redis, or of a cluster, that waits so long for an answer.
// Nothing is dialled yet. RESP2 is all that is needed, and what its follower knows. What fails is
// not tried again by itself: the link does that.
func (d *dialling) client(cluster bool, patience time.Duration) redis.UniversalClient {
	options := &redis.UniversalOptions{
		Addrs: d.addresses, DB: d.database, CredentialsProviderContext: d.credentials, Dialer: d.dial, Protocol: 2,
		DialTimeout: d.timeout, DialerRetries: 1, MaxRetries: -1, PoolSize: poolSize, PoolTimeout: d.timeout,
		ReadTimeout: patience, WriteTimeout: patience, ContextTimeoutEnabled: true,
		DisableIdentity: true, MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	if cluster {
		return redis.NewClusterClient(options.Cluster())
	}
	return redis.NewClient(options.Simple())
}

// dial makes a connection on which what comes is checked.
func (d *dialling) dial(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	c, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil || d.tls == nil {
		return checked(c, d.memory), err
	}
	secured, err := d.secure(ctx, c, address)
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return checked(secured, d.memory), nil
}

// credentialsFrom returns what reads the password from a file for each connection.
func credentialsFrom(path, username string, log *zap.Logger) (credentials, error) {
	file := &secretfile.File[string]{
		Path: path, What: "password file", Log: log,
		Parse: func(content []byte) (string, error) { return strings.TrimRight(string(content), "\r\n"), nil },
	}
	if _, err := file.Reload(); err != nil {
		return nil, fmt.Errorf("password_file: %w", err)
	}
	return func(context.Context) (string, string, error) {
		password, err := file.Reload()
		return username, password, err
	}, nil
}
