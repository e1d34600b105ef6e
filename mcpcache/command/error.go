package command

import (
	"errors"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"
)

// plainly ends a command with an exit code. Its error is one plain line on
// standard error: Caddy would write it into its log.
func plainly(cmd *cobra.Command, code int, err error) error {
	if err != nil {
		err = errors.New(printable(err.Error())) // a server may have had a say in it
	}
	if code <= caddy.ExitCodeFailedStartup {
		return err // cobra writes it
	}
	if err != nil {
		cmd.PrintErrln("Error:", err)
	}
	cmd.SilenceErrors = true
	// Caddy has no other way to an exit code.
	return caddycmd.WrapCommandFuncForCobra(func(caddycmd.Flags) (int, error) { return code, nil })(cmd, nil)
}

// hushCaddy keeps what Caddy says about a configuration while it looks into it
// from standard error, for as long as no configuration is loaded.
func hushCaddy() { caddy.BufferedLog() }
