// Package options reads the options of a guard or a store in a Caddyfile. Each option in its block
// has a name and arguments. The package knows nothing of what an option means, nor of the
// mcp_cache directive around it.
package options

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/dustin/go-humanize"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/nearest"
)

// Setter reads the arguments of one option, whose name is the current token.
type Setter func(d *caddyfile.Dispenser) error

// Guard reads a guard's line and its block. The line may have one argument, which is the value of main.
func Guard(d *caddyfile.Dispenser, main *string, options map[string]Setter, repeatable ...string) error {
	d.Next() // the guard's name
	if d.CountRemainingArgs() > 0 {
		if err := String(main)(d); err != nil {
			return err
		}
	}
	return Parse(d, options, repeatable...)
}

// Parse reads a module's block, or that of one of its options. An unknown option is an
// error, and so is a repeated one that is not said to be repeatable.
func Parse(d *caddyfile.Dispenser, options map[string]Setter, repeatable ...string) error {
	seen := make(map[string]bool)
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		option := d.Val()
		set, known := options[option]
		if !known && len(options) == 0 {
			return d.Errf("unrecognized subdirective %q; there are none", option)
		}
		if !known {
			names := slices.Sorted(maps.Keys(options))
			return d.Errf("unrecognized subdirective %q%s; the options are %s", option, nearest.Question(option, names), strings.Join(names, ", "))
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

// oneArg returns the only argument of the current option. Its error repeats none of
// them, as Caddy's would: they may be parts of a secret.
func oneArg(d *caddyfile.Dispenser) (string, error) {
	option, args := d.Val(), d.RemainingArgs()
	switch len(args) {
	case 0:
		return "", d.Errf("%s takes one argument, not none", option)
	case 1:
		return args[0], nil
	}
	return "", d.Errf("%s takes one argument, not %d: what has spaces is written in quotes", option, len(args))
}

// one reads the only argument of an option by parse, which gets the option's name and the argument
// as written.
func one(d *caddyfile.Dispenser, parse func(option, value string) error) error {
	option := d.Val()
	value, err := oneArg(d)
	if err == nil {
		err = parse(option, value)
	}
	return err
}

// String reads one argument that is not empty. The destination may have
// been set by an argument on the module's own line.
func String(dst *string) Setter {
	return func(d *caddyfile.Dispenser) error {
		return one(d, func(option, value string) error {
			if *dst != "" {
				return d.Errf("%s already specified", option)
			}
			if *dst = value; value == "" {
				return d.Errf("%s must not be empty", option)
			}
			return nil
		})
	}
}

// List reads one argument or more, none of which is empty.
func List(dst *[]string) Setter {
	return func(d *caddyfile.Dispenser) error {
		option := d.Val()
		*dst = d.RemainingArgs()
		if len(*dst) == 0 {
			return d.Errf("%s takes one argument or more", option)
		}
		if slices.Contains(*dst, "") {
			return d.Errf("%s must not be empty", option)
		}
		return nil
	}
}

// Duration reads a duration of more than 0.
func Duration(dst *caddy.Duration) Setter {
	return durationOr(dst, "", "a duration of more than 0")
}

// DurationOrOff reads a duration of more than 0, or off, which is written as a negative one.
func DurationOrOff(dst *caddy.Duration) Setter {
	return durationOr(dst, "off", "a duration of more than 0, or off")
}

// durationOr reads a duration of more than 0, or a word that is written as a negative one.
func durationOr(dst *caddy.Duration, word, want string) Setter {
	return func(d *caddyfile.Dispenser) error {
		return one(d, func(option, value string) error {
			duration, err := caddy.ParseDuration(value)
			switch {
			case word != "" && value == word:
				duration = -1
			case err != nil || duration <= 0:
				return d.Errf("invalid %s %q: want %s", option, value, want)
			}
			*dst = caddy.Duration(duration)
			return nil
		})
	}
}

// Count reads a whole number from 1 to most.
func Count(dst *int, most int) Setter {
	return func(d *caddyfile.Dispenser) error {
		return one(d, func(option, value string) (err error) {
			if *dst, err = strconv.Atoi(value); err != nil || *dst < 1 || *dst > most {
				return d.Errf("invalid %s %q: want a whole number from 1 to %d", option, value, most)
			}
			return nil
		})
	}
}

// Size reads a number of bytes, such as 64MiB, of at least that many MiB.
func Size(dst *int64, leastMiB uint64) Setter {
	return func(d *caddyfile.Dispenser) error {
		return one(d, func(option, value string) error {
			n, err := humanize.ParseBytes(value)
			if err != nil || n < leastMiB<<20 || n > math.MaxInt64 {
				return d.Errf("invalid %s %q: want a size of at least %dMiB, such as 64MiB", option, value, leastMiB)
			}
			*dst = int64(n)
			return nil
		})
	}
}

// Flag reads an option without an argument.
func Flag(dst *bool) Setter {
	return func(d *caddyfile.Dispenser) error {
		if option := d.Val(); d.CountRemainingArgs() > 0 {
			return d.Errf("%s takes no arguments", option)
		}
		*dst = true
		return nil
	}
}

// OneOf reads one of those words.
func OneOf(dst *string, words ...string) Setter {
	return func(d *caddyfile.Dispenser) error {
		return one(d, func(option, value string) error {
			if !slices.Contains(words, value) {
				return d.Errf("invalid %s %q: want %s", option, value, strings.Join(words, " or "))
			}
			*dst = value
			return nil
		})
	}
}

// OnOff reads on or off.
func OnOff(dst **bool) Setter {
	return func(d *caddyfile.Dispenser) error {
		var value string
		if err := OneOf(&value, "on", "off")(d); err != nil {
			return err
		}
		on := value == "on"
		*dst = &on
		return nil
	}
}

// Prefix reads the word before a token; off or the empty string mean
// none.
func Prefix(dst **string) Setter {
	return func(d *caddyfile.Dispenser) error {
		return one(d, func(_, value string) error {
			if value == "off" {
				value = ""
			}
			*dst = &value
			return nil
		})
	}
}

// Param reads a name and its value. Each name may be given once.
func Param(dst *map[string]string) Setter {
	return func(d *caddyfile.Dispenser) error {
		option := d.Val()
		args := d.RemainingArgs()
		if len(args) != 2 {
			return d.Errf("%s takes a name and a value, not %d arguments: what has spaces is written in quotes", option, len(args))
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

// None reads a module that has nothing to set: its name alone, or with an empty
// block.
func None(d *caddyfile.Dispenser) error {
	d.Next() // consume module name
	if name := d.Val(); d.CountRemainingArgs() > 0 {
		return d.Errf("%s takes no arguments", name)
	}
	return Parse(d, nil)
}

// Checked adds the place in the Caddyfile to the error of a module that has checked its options. It
// returns nil if there is no error.
func Checked(d *caddyfile.Dispenser, err error) error {
	if err != nil {
		err = d.WrapErr(err)
	}
	return err
}
