package command

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/nearest"
)

// wanted returns a check for at least and at most so many arguments. Its errors
// say what is wanted, not how many.
func wanted(least, most int, want string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return errors.New(want)
		case len(args) > most:
			return errors.New("there is an argument too many: " + want)
		}
		return nil
	}
}

// helpOrUnknown shows the help of a command that only has others below it. A
// word that none of them is called is an error.
func helpOrUnknown(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	var names []string
	for _, below := range cmd.Commands() {
		if below.IsAvailableCommand() {
			names = append(names, below.Name())
		}
	}
	if near := nearest.Name(args[0], names); near != "" {
		return fmt.Errorf("unknown command %q: did you mean %s?", args[0], near)
	}
	return fmt.Errorf("unknown command %q; there are %s", args[0], strings.Join(names, ", "))
}

// nearestFlag adds to the error of a flag that does not exist which one may have
// been meant.
func nearestFlag(cmd *cobra.Command, err error) error {
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return err
	}
	var names []string
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		if !flag.Hidden {
			names = append(names, flag.Name)
		}
	})
	if near := nearest.Name(unknown.GetSpecifiedName(), names); near != "" {
		return fmt.Errorf("%w (did you mean --%s?)", err, near)
	}
	return err
}
