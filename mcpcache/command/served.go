package command

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/probe"
)

// served is a server that serve stands in front of: at a URL, a program, or, without either, the
// demo server.
type served struct {
	name string // "" for one that stands alone

	url    string
	header http.Header // which each request to it carries

	command []string // in the place of url
	dir     string
	env     map[string]string
}

var (
	// named matches NAME=URL and NAME=COMMAND.
	named = regexp.MustCompile(`^([A-Za-z0-9_-]+)=(.*)$`)
	// nameOfProgram matches a name. In front of a command anything else may be meant as a variable.
	nameOfProgram = regexp.MustCompile(`^[a-z0-9-]{1,32}$`)
)

// readTo reads what a --to names.
func readTo(value string) (s served, err error) {
	what := value
	if match := named.FindStringSubmatch(value); match != nil {
		s.name, what = match[1], match[2]
	}
	switch {
	case !isCommand(what):
		s.url, err = upstreamAt(what)
	case s.name != "" && !nameOfProgram.MatchString(s.name):
		return s, fmt.Errorf("%q is not the name of a server, which has up to 32 of a-z, 0-9 and -; variables of a program are set with --mcp-config, or in a Caddyfile", s.name)
	default:
		if s.command, err = splitWords(what); err == nil {
			err = s.runHere()
		}
	}
	return s, s.wrap(err)
}

// isCommand reports whether a text is a command. All else is a URL.
func isCommand(text string) bool {
	first, _, several := strings.Cut(text, " ")
	return several && !strings.Contains(first, "://") ||
		strings.HasPrefix(text, "/") || strings.HasPrefix(text, "./") || strings.HasPrefix(text, "../")
}

// upstreamAt returns the URL that an operator means.
func upstreamAt(to string) (string, error) {
	if path, err := exec.LookPath(to); err == nil && !strings.ContainsAny(to, ".:/") {
		return "", fmt.Errorf("%q may be a program, or a host: a command without arguments is written %s, and a URL http://%s", to, path, to)
	}
	u, err := probe.ParseURL(to)
	if err != nil {
		return "", err
	}
	return u.String(), checkServed(served{url: u.String()})
}

// checkServed returns an error if the directive does not take the servers: it knows what else
// they have to be.
func checkServed(servers ...served) error {
	_, err := (&serving{from: defaultFrom, admin: caddy.DefaultAdminListen, servers: servers}).config(shown)
	return err
}

// runHere has a program run in this process's directory if it says no other: lists are kept by
// what is run and where, and a relative name in a command means something else elsewhere.
func (s *served) runHere() error {
	if s.dir != "" {
		return nil
	}
	dir, err := os.Getwd()
	if err != nil {
		return fmt.Errorf("looking for the directory to run in: %w", err)
	}
	s.dir = verbatim(dir)
	return nil
}

// wrap says in an error which server it is about.
func (s *served) wrap(err error) error {
	if err == nil || s.name == "" {
		return err
	}
	return fmt.Errorf("%s: %w", s.name, err)
}

// where says where the server is. Arguments of a program may be secrets.
func (s *served) where() string {
	if s.command != nil {
		return "the program " + filepath.Base(s.command[0])
	}
	return s.url
}

// isAt reports whether the server is what listens at an address of this machine.
func (s served) isAt(address string) bool {
	u, err := url.Parse(s.url)
	host, port, failed := net.SplitHostPort(address)
	if err != nil || failed != nil || s.url == "" || u.Port() != port {
		return false
	}
	return u.Hostname() == host || probe.OnLoopback(s.url) && (isEverywhere(host) || probe.OnLoopback("http://"+address))
}

// isDemo reports whether the server is the built-in one, as nothing else is named.
func (s *served) isDemo() bool { return s.url == "" && s.command == nil }

// hasSecrets reports whether the server is given what says on whose behalf it is asked. What has
// been listed with one token is nothing for another one, so such lists are not stored.
func (s served) hasSecrets() bool { return len(s.header) > 0 || len(s.env) > 0 }
