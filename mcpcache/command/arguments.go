package command

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
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
	cmd.SuggestionsMinimumDistance = 2 // what cobra takes for its root
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		return fmt.Errorf("unknown command %q: did you mean %s?", args[0], strings.Join(near, " or "))
	}
	var names []string
	for _, below := range cmd.Commands() {
		if below.IsAvailableCommand() {
			names = append(names, below.Name())
		}
	}
	return fmt.Errorf("unknown command %q; there are %s", args[0], strings.Join(names, ", "))
}
