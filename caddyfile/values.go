package caddyfile

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	caddyparse "github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/dustin/go-humanize"

	"github.com/caddy-mcp/mcp-cache/mcpcache"
)

// What options take, in the words of their errors.
const (
	aDuration        = "one duration above 0, such as 90s, 5m or 1d"
	aDurationOfKinds = "one duration above 0, such as 90s, 5m or 1d, and before it optionally one or more of"
	aDurationOrZero  = "one duration, such as 90s, 5m or 1d, or 0 for off"
	aSize            = "one size above 0, such as 512KiB or 64MiB"
	aMemorySize      = "one size of at least 1MiB, such as 64MiB"
)

// option is one subdirective with the tokens that belong to it.
type option struct {
	*caddyparse.Dispenser // at the option's name

	name   string
	tokens caddyparse.Segment
}

func newOption(tokens caddyparse.Segment) option {
	d := caddyparse.NewDispenser(tokens)
	d.Next()
	return option{Dispenser: d, name: d.Val(), tokens: tokens}
}

// refuse is the error of an option that was given something else than it
// takes.
func (o option) refuse(takes string, given ...string) error {
	return o.refuseName(takes, "", nil, given...)
}

// refuseName is refuse where a word of what was given is none of the names that
// it could be.
func (o option) refuseName(takes, word string, names []string, given ...string) error {
	if len(given) == 0 {
		return o.Errf("%s takes %s, not nothing", o.name, takes)
	}
	quoted := make([]string, len(given))
	for i, value := range given {
		quoted[i] = strconv.Quote(value)
	}
	return o.Errf("%s takes %s, not %s%s", o.name, takes, strings.Join(quoted, " "), mcpcache.DidYouMean(word, names))
}

// arguments returns the option's arguments, from least to most of them. An
// option that is read with it has no block.
func (o option) arguments(takes string, least, most int) ([]string, error) {
	args := o.RemainingArgs()
	if len(args) < least || len(args) > most {
		return nil, o.refuse(takes, args...)
	}
	if o.Next() {
		return nil, o.Errf("%s takes %s, not a block", o.name, takes)
	}
	return args, nil
}

// argument returns the option's only argument.
func (o option) argument(takes string) (string, error) {
	args, err := o.arguments(takes, 1, 1)
	if err != nil {
		return "", err
	}
	return args[0], nil
}

// distinct returns one or more arguments that pass check and are all
// different.
func (o option) distinct(takes string, check func(string) error) ([]string, error) {
	args, err := o.arguments(takes, 1, math.MaxInt)
	if err != nil {
		return nil, err
	}
	for i, arg := range args {
		if err := check(arg); err != nil {
			return nil, err
		}
		if slices.Contains(args[:i], arg) {
			return nil, o.Errf("%s names %q twice", o.name, arg)
		}
	}
	return args, nil
}

// someOf reads an option that is one or more of those names.
func (o option) someOf(names []string) ([]string, error) {
	takes := "one or more of " + strings.Join(names, ", ")
	return o.distinct(takes, func(name string) error {
		if !slices.Contains(names, name) {
			return o.refuseName(takes, name, names, name)
		}
		return nil
	})
}

// parseDuration reads a duration of at least the given length.
func (o option) parseDuration(takes, value string, least time.Duration) (caddy.Duration, error) {
	d, err := caddy.ParseDuration(value)
	if err != nil || d < least {
		return 0, o.refuse(takes, value)
	}
	return caddy.Duration(d), nil
}

// duration reads an option that is one duration above 0.
func (o option) duration(dst *caddy.Duration) error {
	value, err := o.argument(aDuration)
	if err != nil {
		return err
	}
	*dst, err = o.parseDuration(aDuration, value, 1)
	return err
}

// durationByKind reads an option that is one duration above 0, for all kinds or
// for those that are named before it. It may be given once for all and once for
// each kind.
func (o option) durationByKind(all *caddy.Duration, byKind *map[string]caddy.Duration) error {
	takes := aDurationOfKinds + " " + strings.Join(mcpcache.Kinds(), ", ")
	args, err := o.arguments(takes, 1, math.MaxInt)
	if err != nil {
		return err
	}
	kinds, value := args[:len(args)-1], args[len(args)-1]
	for _, kind := range kinds {
		if !slices.Contains(mcpcache.Kinds(), kind) {
			return o.refuseName(takes, kind, mcpcache.Kinds(), args...)
		}
	}
	d, err := o.parseDuration(takes, value, 1)
	if err != nil {
		return err
	}
	if len(kinds) == 0 {
		if *all != 0 {
			return o.Errf("%s already specified", o.name)
		}
		*all = d
	}
	for _, kind := range kinds {
		if (*byKind)[kind] != 0 {
			return o.Errf("%s already specified for %s", o.name, kind)
		}
		if *byKind == nil {
			*byKind = make(map[string]caddy.Duration)
		}
		(*byKind)[kind] = d
	}
	return nil
}

// size reads an option that is one number of bytes, of at least the given one.
func (o option) size(dst *int64, takes string, least uint64) error {
	value, err := o.argument(takes)
	if err != nil {
		return err
	}
	size, err := humanize.ParseBytes(value)
	if err != nil || size < least || size > math.MaxInt64 {
		return o.refuse(takes, value)
	}
	*dst = int64(size)
	return nil
}

// encodeModule encodes a guest with its name under key.
func encodeModule(d *caddyparse.Dispenser, module any, key, name string) (json.RawMessage, error) {
	var warnings []caddyconfig.Warning
	encoded := caddyconfig.JSONModuleObject(module, key, name, &warnings)
	if len(warnings) > 0 {
		return nil, d.Errf("encoding %s: %s", name, warnings[0].Message)
	}
	return encoded, nil
}

// shown is a URL for an error message, without the parts that may hold a
// secret: user info, query and fragment.
func shown(raw string) string {
	if at := strings.LastIndexByte(raw, '@'); at >= 0 {
		raw = "..." + raw[at:]
	}
	if end := strings.IndexAny(raw, "?#"); end >= 0 {
		raw = raw[:end] + "..."
	}
	return raw
}
