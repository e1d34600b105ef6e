package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/feed"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/probe"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/report"
)

// serving is what serve is asked for.
type serving struct {
	from  string // to listen on
	admin string // address of the admin API
	// servers are what is served: one without a name, or those of a toolkit, in order.
	servers []served
	// minTTL is the option of that name; "" if it is not given.
	minTTL string
	// log is a file, "stderr", or "".
	log string
	// unused is what of all that is given means nothing here.
	unused []string
}

// newServing reads the flags. Its error names all that are wrong. What is only to be printed
// keeps its placeholders, and needs no address.
func newServing(ctx context.Context, flags caddycmd.Flags) (*serving, error) {
	s := &serving{minTTL: flags.String("min-ttl"), log: flags.String("log")}
	printed := flags.Bool("print")
	var mistakes []string
	check := func(flag string, err error) {
		if err != nil {
			mistakes = append(mistakes, "--"+flag+": "+err.Error())
		}
	}
	to, err := flags.GetStringArray("to")
	if len(to) == 0 && flags.Changed("to") {
		to = []string{""} // pflag takes one empty text for none
	}
	if err == nil {
		err = s.reach(to)
	}
	check("to", err)
	if flags.Changed("mcp-config") {
		check("mcp-config", s.readConfig(flags.String("mcp-config"), len(to) > 0, printed))
	}
	if len(s.servers) == 0 {
		s.servers = []served{{}} // the demo server
	}
	headers := headersGiven(flags.FlagSet)
	if len(headers) > 0 {
		check("header", s.send(headers, printed))
	}
	local := len(headers) > 0 || slices.ContainsFunc(s.servers, func(one served) bool { return len(one.header) > 0 })
	check("from", s.listenOn(ctx, flags.String("from"), local, printed))
	check("from", s.leaveOutSelf())
	check("min-ttl", checkMinTTL(s.minTTL))
	if printed && s.servers[0].isDemo() && len(mistakes) == 0 {
		check("print", errors.New("name a server, with --to or --mcp-config: the demo server lives as long as serve"))
	}
	if len(mistakes) > 0 {
		return nil, errors.New(strings.Join(mistakes, "; "))
	}
	if printed {
		return s, nil
	}
	if s.admin, err = adminAddress(ctx, caddy.DefaultAdminListen); err != nil {
		return nil, fmt.Errorf("choosing an address for the admin API: %w", err)
	}
	return s, nil
}

// listenOn takes the address to listen on. If it has to be local, no other
// machine must reach it.
func (s *serving) listenOn(ctx context.Context, from string, local, printed bool) (err error) {
	if printed {
		err = checkAddress(from)
		s.from = from
	} else {
		s.from, err = freeAddress(ctx, from)
	}
	if err != nil {
		return err
	}
	if local && !probe.OnLoopback("http://"+s.from) {
		return fmt.Errorf("with headers, whoever reaches the cache acts with them, so it has to listen on a loopback address, such as %s", defaultFrom)
	}
	return nil
}

// reach takes what --to says: one server, several with a name each, or nothing.
func (s *serving) reach(to []string) error {
	for _, value := range to {
		one, err := readTo(value)
		if err == nil && one.name == "" && len(to) > 1 {
			err = fmt.Errorf("%q has no name: give each of several servers one, such as --to 'docs=%s'", value, value)
		}
		if err != nil {
			return err
		}
		s.servers = append(s.servers, one)
	}
	if len(to) == 0 {
		return nil
	}
	return checkServed(s.servers...)
}

// readConfig takes the servers of a file of clients.
func (s *serving) readConfig(file string, more, printed bool) error {
	if more {
		return errors.New("its servers are a toolkit of their own; give either this or --to")
	}
	config, err := readMCPConfig(file, variables{written: printed})
	if err != nil {
		return err
	}
	s.servers, s.unused = config.servers, config.unused
	return checkServed(s.servers...)
}

// leaveOutSelf leaves out of several servers the cache itself, which files of clients may have. It
// is an error if nothing else is to be served: it would ask itself for ever.
func (s *serving) leaveOutSelf() error {
	var others []served
	for _, one := range s.servers {
		if one.isAt(s.from) {
			s.unused = append(s.unused, one.name+", which is this cache itself")
			continue
		}
		others = append(others, one)
	}
	if len(others) == 0 {
		return fmt.Errorf("%s is the address of the server to be served, too: give serve another one", s.from)
	}
	s.servers = others
	return nil
}

// send has each request carry the headers of --header.
func (s *serving) send(headers []string, printed bool) (err error) {
	if !printed {
		if headers, err = replaceInHeaders(headers); err != nil {
			return err
		}
	}
	header, err := probe.Headers(headers)
	switch {
	case err != nil:
		return err
	case s.isToolkit():
		return errors.New("not with several servers: each of them would be sent it; write a Caddyfile with a reverse_proxy in the block of the server that it is for")
	case s.servers[0].command != nil:
		return errors.New("a program is sent no headers; what it needs, such as a token, it has from its environment: see --mcp-config")
	}
	s.servers[0].header = header
	return nil
}

// whyNoProgram says in one line what is wrong with a program; "" if nothing is. It is not asked
// itself, as that would start another process.
func (s *serving) whyNoProgram(one served, statuses []report.Status) string {
	for _, status := range withFeeds(statuses) {
		_, name, _ := strings.Cut(status.Name, "/")
		if name != one.name || len(status.Feeds) == 0 ||
			slices.ContainsFunc(status.Feeds, func(f report.Feed) bool { return f.State != feed.Down && f.State != feed.Unsupported }) {
			continue
		}
		log := s.log
		if log == "" || log == "stderr" {
			log = "standard error"
		}
		return printable(fmt.Sprintf("Trouble: %s cannot be used: %s. What it wrote to standard error is in the log, %s",
			cmp.Or(one.name, one.where()), whyUnusable(status), log))
	}
	return ""
}

// whyUnusable says why a program cannot be used.
func whyUnusable(status report.Status) string {
	if status.Program != nil && status.Program.Failure != nil {
		return status.Program.Failure.Message
	}
	reasons := make([]string, len(status.Feeds))
	for i, f := range status.Feeds {
		reasons[i] = f.Revision + " " + stateText(f.State)
		if f.Failure != nil {
			reasons[i] += " (" + f.Failure.Message + ")"
		}
	}
	return strings.Join(reasons, "; ")
}

// to returns a URL with the path that clients use.
func (s *serving) to() string {
	if s.isToolkit() {
		return ""
	}
	return s.servers[0].url
}

// isToolkit reports whether the servers have names, and are behind one endpoint.
func (s *serving) isToolkit() bool { return len(s.servers) > 0 && s.servers[0].name != "" }

func checkMinTTL(text string) error {
	if text == "" {
		return nil
	}
	d, err := caddy.ParseDuration(text)
	switch {
	case err != nil:
		return fmt.Errorf("%q is no duration such as 1m", text)
	case d < 0 || d > feed.DefaultMaxTTL:
		return fmt.Errorf("%q is not from 0 to %s", text, feed.DefaultMaxTTL)
	}
	return nil
}

// remarks says what else people should know of the addresses and headers.
func (s *serving) remarks() string {
	var text strings.Builder
	text.WriteString(s.reachable())
	for _, one := range s.servers {
		if names := slices.Sorted(maps.Keys(one.header)); len(names) > 0 {
			fmt.Fprintf(&text, "Each request to %s carries the %s that you have given: whoever reaches the cache acts with that.\n",
				cmp.Or(one.name, "the server"), strings.Join(names, ", "))
		}
	}
	if len(s.unused) > 0 {
		text.WriteString(s.ignored() + "\n")
	}
	text.WriteString("Caddy's admin API is at " + s.admin + ".")
	if s.admin != caddy.DefaultAdminListen {
		text.WriteString(" See how the cache is: caddy mcp-cache status --address " + s.admin)
	}
	text.WriteByte('\n')
	return text.String()
}

// reachable says who else than this machine reaches the cache; "" for nobody.
func (s *serving) reachable() string {
	if probe.OnLoopback("http://" + s.from) {
		return ""
	}
	host, _, _ := net.SplitHostPort(s.from)
	where, uses := host+": whoever reaches that", "can use the server"
	if isEverywhere(host) {
		where = "all addresses of this machine: whoever reaches one of them"
	}
	if s.runsPrograms() {
		uses = "runs programs here, with your rights"
	}
	return "It listens on " + where + " " + uses + ".\n"
}

// runsPrograms reports whether any server is a program.
func (s *serving) runsPrograms() bool {
	return slices.ContainsFunc(s.servers, func(one served) bool { return one.command != nil })
}

// ignored says what is not used of what is given.
func (s *serving) ignored() string {
	return "Not used: " + printable(strings.Join(s.unused, ", ")) + "."
}

// behind says in front of what the cache is.
func (s *serving) behind() string {
	if !s.isToolkit() {
		if s.servers[0].command != nil {
			return s.servers[0].where()
		}
		return "the MCP server at " + s.servers[0].url
	}
	texts := make([]string, len(s.servers))
	for i, server := range s.servers {
		texts[i] = server.name + " at " + server.where()
	}
	return strings.Join(texts, ", ")
}

// whyNot says in a line for each server what is wrong with it; "" if nothing is.
func (s *serving) whyNot(ctx context.Context) string {
	var lines []string
	for _, server := range s.servers {
		var why string
		if server.command == nil {
			why = whyNot(ctx, server.url, server.header)
		} else {
			why = s.whyNoProgram(server, report.Live.Statuses(time.Now()))
		}
		if why != "" {
			lines = append(lines, why)
		}
	}
	return strings.Join(lines, "\n")
}
