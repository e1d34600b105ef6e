package guards

import (
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
)

// setter reads the arguments of one option, whose name is the current token.
type setter func(d *caddyfile.Dispenser) error

// parseOptions reads the guard's block. An unknown option is an error, and so
// is a repeated one that is not said to be repeatable.
func parseOptions(d *caddyfile.Dispenser, options map[string]setter, repeatable ...string) error {
	seen := make(map[string]bool)
	for d.NextBlock(0) {
		option := d.Val()
		set, known := options[option]
		if !known {
			return d.Errf("unrecognized subdirective %q", option)
		}
		if seen[option] && !slices.Contains(repeatable, option) {
			return d.Errf("%s already specified", option)
		}
		seen[option] = true
		if err := set(d); err != nil {
			return err
		}
	}
	return nil
}

// oneArg returns the only argument of the current option.
func oneArg(d *caddyfile.Dispenser) (string, error) {
	if !d.NextArg() {
		return "", d.ArgErr()
	}
	value := d.Val()
	if d.NextArg() {
		return "", d.ArgErr()
	}
	return value, nil
}

// stringOption reads one argument that is not empty. The destination may have
// been set by an argument on the guard's own line.
func stringOption(dst *string) setter {
	return func(d *caddyfile.Dispenser) error {
		option := d.Val()
		value, err := oneArg(d)
		switch {
		case err != nil:
			return err
		case *dst != "":
			return d.Errf("%s already specified", option)
		case value == "":
			return d.Errf("%s must not be empty", option)
		}
		*dst = value
		return nil
	}
}

// listOption reads one argument or more, none of which is empty.
func listOption(dst *[]string) setter {
	return func(d *caddyfile.Dispenser) error {
		option := d.Val()
		*dst = d.RemainingArgs()
		if len(*dst) == 0 {
			return d.ArgErr()
		}
		if slices.Contains(*dst, "") {
			return d.Errf("%s must not be empty", option)
		}
		return nil
	}
}

// durationOption reads a duration of more than 0.
func durationOption(dst *caddy.Duration) setter {
	return func(d *caddyfile.Dispenser) error {
		option := d.Val()
		value, err := oneArg(d)
		if err != nil {
			return err
		}
		duration, err := caddy.ParseDuration(value)
		if err != nil || duration <= 0 {
			return d.Errf("invalid %s %q: want a duration of more than 0", option, value)
		}
		*dst = caddy.Duration(duration)
		return nil
	}
}

// prefixOption reads the word before a token; off or the empty string mean
// none.
func prefixOption(dst **string) setter {
	return func(d *caddyfile.Dispenser) error {
		value, err := oneArg(d)
		if err != nil {
			return err
		}
		if value == "off" {
			value = ""
		}
		*dst = &value
		return nil
	}
}

// paramOption reads a name and its value. Each name may be given once.
func paramOption(dst *map[string]string) setter {
	return func(d *caddyfile.Dispenser) error {
		option := d.Val()
		args := d.RemainingArgs()
		if len(args) != 2 {
			return d.ArgErr()
		}
		if _, ok := (*dst)[args[0]]; ok {
			return d.Errf("%s %q already specified", option, args[0])
		}
		if *dst == nil {
			*dst = make(map[string]string)
		}
		(*dst)[args[0]] = args[1]
		return nil
	}
}

// tlsOptions are those TLS options of reverse_proxy's http transport that make
// sense for token and metadata endpoints.
var tlsOptions = []string{
	"tls_client_auth", "tls_curves", "tls_insecure_skip_verify",
	"tls_renegotiation", "tls_server_name", "tls_timeout", "tls_trust_pool",
}

// tlsOption lets the http transport read one of its options, so that they mean
// the same here as there.
func tlsOption(dst **reverseproxy.TLSConfig) setter {
	return func(d *caddyfile.Dispenser) error {
		segment := d.NextSegment()
		first, last := segment[0], segment[len(segment)-1]
		open, shut := first, last
		open.Text = "{"
		shut.Text, shut.Line = "}", last.Line+strings.Count(last.Text, "\n")+1
		tokens := append([]caddyfile.Token{first, open}, segment...)
		transport := &reverseproxy.HTTPTransport{TLS: *dst}
		if err := transport.UnmarshalCaddyfile(caddyfile.NewDispenser(append(tokens, shut))); err != nil {
			return err
		}
		*dst = transport.TLS
		return nil
	}
}
