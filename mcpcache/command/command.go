// Package command has what `caddy mcp-cache` can do: serve, check, and the
// commands that look at a running Caddy and steer it: status, list, describe,
// refresh, purge and restart. They speak to the admin API over HTTP, in the types of
// internal/report. version says what the program itself is. What they print is for people, or JSON for programs.
//
// It knows nothing of the handler: neither how requests are answered, nor how a
// configuration is read. serve writes a Caddyfile and has Caddy load it.
package command

import (
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"
)

func init() {
	caddycmd.RegisterCommand(caddycmd.Command{
		Name:      "mcp-cache",
		Usage:     "<command>",
		Short:     "Runs a cache in front of an MCP server",
		CobraFunc: addCommands,
	})
}

// addCommands adds ours below cmd.
func addCommands(cmd *cobra.Command) {
	cmd.AddCommand(newServeCommand(), newCheckCommand(), newVersionCommand())
	addOperatorCommands(cmd)
	cmd.Args, cmd.RunE = cobra.ArbitraryArgs, helpOrUnknown
	cmd.DisableFlagsInUseLine = true
	cmd.SetFlagErrorFunc(nearestFlag)
	cmd.FParseErrWhitelist.UnknownFlags = true // those of a command that does not exist
}
