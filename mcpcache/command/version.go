package command

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/version"
)

func newVersionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Says which version this program is",
		Long: `
Prints the versions of mcp_cache, of Caddy and of Go that this program is built
with. If the commit is no release, the version has the commit in it, and "+dirty" if
files were changed. "devel" means that the program has no version in it: Go writes
none for "go run", nor for a folder in the place of a release.
`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			asJSON, _ := cmd.Flags().GetBool("json") // it is defined below
			if asJSON {
				return writeJSONTo(cmd.OutOrStdout(), map[string]string{
					"mcp_cache": version.Own(), "caddy": version.Caddy(), "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH,
				})
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "mcp_cache %s\nCaddy %s\n%s %s/%s\n",
				version.Own(), version.Caddy(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
	cmd.Flags().Bool("json", false, "Print JSON, for programs")
	return cmd
}
