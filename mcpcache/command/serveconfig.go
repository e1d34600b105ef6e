package command

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"regexp"
	"slices"

	"github.com/caddyserver/caddy/v2/caddyconfig"
)

// secrets says how a text that may be a secret is written.
type secrets func(text string) (string, error)

// shown writes it as it is.
func shown(text string) (string, error) { return text, nil }

// inEnvironment keeps it in this process's environment, and writes a placeholder: Caddy shows its
// configuration in the admin API and in errors.
func inEnvironment() secrets {
	n := 0
	return func(text string) (string, error) {
		if text == "" {
			return "", nil // an empty variable would be an error
		}
		n++
		variable := fmt.Sprintf("MCP_CACHE_SERVE_%d", n)
		if err := os.Setenv(variable, text); err != nil {
			return "", fmt.Errorf("keeping a value: %w", err)
		}
		return "{env." + variable + "}", nil
	}
}

// config returns the JSON configuration of a Caddy that serves that. The
// directive makes it, so that a URL means here what it means in a Caddyfile.
func (s *serving) config(secret secrets) ([]byte, error) {
	adapter := caddyconfig.GetAdapter("caddyfile")
	if adapter == nil {
		return nil, errors.New("this Caddy is built without Caddyfiles")
	}
	site, err := s.site(secret, true)
	if err != nil {
		return nil, err
	}
	text, err := writeCaddyfile(line{block: []line{
		words("admin", s.admin),
		words("persist_config", "off"),
		words("grace_period", serveGrace.String()),
		words("auto_https", "off"),
		{[]string{"servers"}, []line{words("protocols", "h1")}},
		s.logOptions(),
	}}, site)
	if err != nil {
		return nil, err
	}
	config, _, err := adapter.Adapt([]byte(text), nil)
	if err != nil {
		return nil, errors.New(inCaddyfile.ReplaceAllString(err.Error(), ""))
	}
	return config, nil
}

// inCaddyfile is what the adapter's errors say of a Caddyfile that nobody has
// written.
var inCaddyfile = regexp.MustCompile(`^parsing caddyfile tokens for '[^']*': |,? (?:at|in) Caddyfile:\d+$`)

// print returns a Caddyfile that serves that, for a Caddy that is started without serve.
func (s *serving) print() (string, error) {
	site, err := s.site(shown, false)
	if err != nil {
		return "", err
	}
	lines := []line{site}
	if s.log != "" {
		lines = []line{{block: []line{s.logOptions()}}, site}
	}
	return writeCaddyfile(lines...)
}

// saidOtherwise are the loggers whose warnings people need not see: how the feeds
// are, serve says itself; that a client has closed its stream is nothing unusual.
var saidOtherwise = []string{"http.handlers.mcp_cache.feed", "http.handlers.reverse_proxy"}

// logOptions are those of Caddy's log.
func (s *serving) logOptions() line {
	log := line{words: []string{"log"}}
	switch s.log {
	case "":
		log.block = []line{
			words("output", "stderr"),
			words("level", "WARN"),
			words(append([]string{"exclude"}, saidOtherwise...)...),
			{[]string{"format", "console"}, []line{words("time_format", "wall"), words("level_format", "upper")}},
		}
	case "stderr":
		log.block = []line{words("output", "stderr"), words("format", "json")}
	default:
		log.block = []line{words("output", "file", s.log), words("format", "json")}
	}
	return log
}

// site returns the site with the directive. It is said to be here if serve listens itself: then it
// has said who reaches a program, which the directive warns of otherwise.
func (s *serving) site(secret secrets, here bool) (line, error) {
	host, port, err := net.SplitHostPort(s.from)
	if err != nil {
		return line{}, err
	}
	site := line{words: []string{"http://:" + port}}
	if host != "" {
		site.block = append(site.block, words("bind", host))
	}
	directive := line{words: []string{"mcp_cache"}}
	if slices.ContainsFunc(s.servers, (served).hasSecrets) {
		directive.block = append(directive.block, words("store", "off"))
	}
	if here && s.runsPrograms() {
		directive.block = append(directive.block, words("admit", "all"))
	}
	for _, one := range s.servers {
		options, err := s.options(one, secret)
		if err != nil {
			return line{}, one.wrap(err)
		}
		if one.name == "" {
			directive.words = append(directive.words, one.target()...)
			directive.block = append(directive.block, options...)
		} else {
			directive.block = append(directive.block, line{append([]string{"server", one.name}, one.target()...), options})
		}
	}
	site.block = append(site.block, directive)
	return site, nil
}

// target returns the words that name the server in the directive.
func (s *served) target() []string {
	if s.command != nil {
		return append([]string{"stdio"}, s.command...)
	}
	return []string{s.url}
}

// options returns those of one server.
func (s *serving) options(one served, secret secrets) (options []line, err error) {
	write := func(text string) string {
		written, failed := secret(text)
		err = errors.Join(err, failed)
		return written
	}
	if s.minTTL != "" {
		options = append(options, words("min_ttl", s.minTTL))
	}
	if len(one.header) > 0 {
		proxy := line{words: []string{"reverse_proxy"}}
		for _, name := range slices.Sorted(maps.Keys(one.header)) {
			proxy.block = append(proxy.block, words("header_up", name, write(one.header.Get(name))))
		}
		options = append(options, proxy)
	}
	if one.command != nil {
		program := line{words: []string{"stdio"}}
		for _, name := range slices.Sorted(maps.Keys(one.env)) {
			program.block = append(program.block, words("env", name, write(one.env[name])))
		}
		options = append(options, line{program.words, append(program.block, words("dir", one.dir))})
	}
	return options, err
}
