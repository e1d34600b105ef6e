package stdio

import (
	"maps"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/options"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// UnmarshalCaddyfile reads the transport from a Caddyfile:
//
//	transport stdio <command> [<args...>] {
//		env           <name> <value>
//		pass_env      <name...>
//		dir           <path>
//		user          <name>
//		start_timeout <duration>   # default: 2m
//		idle          <duration>   # default: 5m. off: never stopped
//		stop_grace    <duration>   # default: 2s
//		max           <n>          # processes. Default: 32
//		memory        <size>       # for messages on their way. Default: 64MiB, or that of mcp_cache
//		share                      # one process for all sessions
//		era           legacy|modern  # default: found out
//		lazy          on|off       # start a process when it is needed only. Default: on
//	}
func (t *Transport) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the transport's name
	command := d.RemainingArgs()
	if len(command) == 0 {
		return d.Err("transport stdio needs a command, such as npx -y @modelcontextprotocol/server-everything stdio")
	}
	t.Command, t.Args = command[0], command[1:]
	return options.Parse(d, t.options(), "env")
}

// OptionNames returns the names of the options in the block, sorted.
func OptionNames() []string { return slices.Sorted(maps.Keys(new(Transport).options())) }

// options returns what reads each option.
func (t *Transport) options() map[string]options.Setter {
	return map[string]options.Setter{
		"env":           options.Param(&t.Env),
		"pass_env":      options.List(&t.PassEnv),
		"dir":           options.String(&t.Dir),
		"user":          options.String(&t.User),
		"start_timeout": options.Duration(&t.StartTimeout),
		"idle":          options.DurationOrOff(&t.Idle),
		"stop_grace":    options.Duration(&t.StopGrace),
		"max":           options.Count(&t.Max, MostProcesses),
		"memory":        options.Size(&t.Memory, LeastMemory>>20),
		"share":         options.Flag(&t.Share),
		"era":           options.OneOf(&t.Era, revision.EraNames()...),
		"lazy":          options.OnOff(&t.Lazy),
	}
}

// Interface guards
var (
	_ caddyfile.Unmarshaler = (*Transport)(nil)
	_ caddy.Module          = (*Transport)(nil)
)
