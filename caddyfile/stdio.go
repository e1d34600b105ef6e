package caddyfile

import (
	"cmp"
	"slices"

	caddyparse "github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddy-mcp/mcp-cache/mcpcache/transports/stdio"
)

// aCommand is what follows the word stdio, in the words of errors.
const aCommand = "stdio and a command, such as stdio npx -y @modelcontextprotocol/server-everything stdio"

// inHTTP are the options that are about the headers of requests, of which a program hears nothing.
var inHTTP = []string{"authorization", "guard", "headers", "host"}

// parseCommand reads `stdio <command> [<args...>]` in the place of URLs. The word is the
// current token.
func (p *parser) parseCommand() error {
	if p.command = p.RemainingArgs(); len(p.command) == 0 || p.command[0] == "" {
		return p.Errf("%s needs a command after stdio, such as npx -y @modelcontextprotocol/server-everything stdio", p.who())
	}
	return nil
}

// stdio reads `stdio { ... }`, the options of the program.
func (p *parser) stdio(o option) error {
	switch {
	case p.command == nil:
		return o.Errf("stdio has the options of a program: %s takes %s, and then the block", p.who(), aCommand)
	case len(o.tokens) == 1:
		return o.refuse("a block of the program's options")
	case o.NextArg():
		return o.Errf("stdio takes a block of the program's options alone: its command stands after %s stdio", p.who())
	}
	p.program = o.tokens
	return nil
}

// checkProgram returns an error if the block has options that no program hears of.
func (p *parser) checkProgram(seen map[string]bool) error {
	for _, name := range inHTTP {
		if p.command != nil && seen[name] {
			return newOption(caddyparse.Segment{p.directive}).Errf(
				"%s is about headers of requests, and a program is sent none; what it needs, such as a token, is given by the option env of stdio", name)
		}
	}
	return nil
}

// runProgram makes the transport of a program that of the embedded handler.
func (p *parser) runProgram(handler *reverseproxy.Handler) error {
	// The transport's own parser reads the options, and a word in the command's place: what
	// was imported from elsewhere stands on no line with the command.
	options := p.program
	if options == nil {
		options = caddyparse.Segment{p.directive}
	}
	tokens := slices.Insert(slices.Clone(options), 1, options[0])
	d := caddyparse.NewDispenser(tokens)
	transport := new(stdio.Transport)
	if err := transport.UnmarshalCaddyfile(d); err != nil {
		return err
	}
	transport.Command, transport.Args = p.command[0], p.command[1:]
	var err error
	handler.TransportRaw, err = encodeModule(d, transport, "protocol", "stdio")
	return err
}

// programAddress names the program in the place of an address.
func (p *parser) programAddress() string {
	// Without a name the handler is called as its directive.
	return "stdio/" + cmp.Or(p.shared.Name, p.directive.Text)
}
