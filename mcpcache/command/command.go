// Package command has the commands of `caddy mcp-cache`: serve, check, and the commands for a
// running Caddy. These are status, list, describe, refresh, purge and restart. They speak to the
// admin API over HTTP, in the types of internal/report. The command version says how the program
// itself was built. Commands print for people, or JSON for programs.
//
// The package knows nothing of the handler. It knows neither how the handler answers requests, nor
// how it reads a configuration. The command serve writes a Caddyfile and has Caddy load it.
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
