package command

import (
	"fmt"
	"io"
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/spf13/cobra"
)

func newPurgeCommand() *cobra.Command {
	return operator(&cobra.Command{
		Use:   "purge",
		Short: "Forgets what was kept for callers",
		Long: `
Forgets the answers that were kept for callers, and whom the upstream has
accepted: the next list of each caller goes to the upstream. The feeds keep
their lists, which "refresh" fetches anew.
`,
		Args: cobra.NoArgs,
	}, func(c *adminClient, out io.Writer, _ []string) (int, error) {
		name, err := c.handler()
		if err != nil {
			return caddy.ExitCodeFailedStartup, err
		}
		if _, err := c.sendRequest(http.MethodPost, "", name, "purge"); err != nil {
			return caddy.ExitCodeFailedStartup, err
		}
		if c.json {
			err = writeJSONTo(out, map[string]string{"purged": name})
		} else {
			_, err = fmt.Fprintf(out, "%s has forgotten what was kept for callers, and whom the upstream has accepted.\n", name)
		}
		return codeOf(err), err
	})
}
