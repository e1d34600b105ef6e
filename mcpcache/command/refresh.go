package command

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/caddyserver/caddy/v2"
	"github.com/spf13/cobra"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/report"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

func newRefreshCommand() *cobra.Command {
	return operator(&cobra.Command{
		Use:   "refresh [KIND]",
		Short: "Fetches lists from the upstream now",
		Long: `
Fetches the lists of one kind from the upstream now, at every revision that has
a feed: tools, prompts, resources, resource_templates or discover. Without a
kind, all of them. It waits until that is done, two minutes at most, and shows
what has been added (+), removed (-) and changed (~). A refresh that is already
under way is joined.

A list that cannot be fetched stays what it was.
` + exitCodes,
		Args: wanted(0, 1, "name one kind of lists or none, such as: refresh tools"),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			var names []string
			if len(args) == 0 {
				for _, k := range revision.Kinds() {
					names = append(names, k.String())
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
	}, func(c *adminClient, out io.Writer, args []string) (int, error) {
		results, err := c.refresh(args)
		if err != nil {
			return caddy.ExitCodeFailedStartup, err
		}
		if c.json {
			err = writeJSONTo(out, results)
		} else {
			err = writeRefreshed(out, results)
		}
		if err != nil {
			return caddy.ExitCodeFailedStartup, err
		}
		failed := 0
		for _, result := range results {
			if result.Error != "" {
				failed++
			}
		}
		if failed > 0 {
			return exitFailing, fmt.Errorf("%d of %d lists could not be fetched", failed, len(results))
		}
		return caddy.ExitCodeSuccess, nil
	})
}

// refresh has the handler fetch one kind, or all if none is given.
func (c *adminClient) refresh(kinds []string) ([]report.Refreshed, error) {
	name, err := c.handler()
	if err != nil {
		return nil, err
	}
	query := ""
	if len(kinds) > 0 {
		query = url.Values{"kind": kinds}.Encode()
	}
	answer, err := c.sendRequest(http.MethodPost, query, name, "refresh")
	if err != nil {
		return nil, err
	}
	var results []report.Refreshed
	if err := json.Unmarshal(answer, &results); err != nil {
		return nil, fmt.Errorf("reading the answer of the admin API: %w", err)
	}
	return results, nil
}

func writeRefreshed(out io.Writer, results []report.Refreshed) error {
	columns := []string{"KIND", "REVISION", "ITEMS", "ADDED", "REMOVED", "CHANGED", "FAILURE"}
	several := slices.ContainsFunc(results, func(r report.Refreshed) bool { return r.Server != "" })
	if several {
		columns = append([]string{"SERVER"}, columns...)
	}
	rows := headed(len(results), columns...)
	for _, r := range results {
		row := []string{r.Kind, r.Revision}
		if several {
			row = append([]string{r.Server}, row...)
		}
		for _, n := range []int{r.Items, len(r.Added), len(r.Removed), len(r.Changed)} {
			if r.Error != "" {
				row = append(row, "-")
				continue
			}
			row = append(row, strconv.Itoa(n))
		}
		rows = append(rows, append(row, r.Error))
	}
	if err := writeTable(out, rows); err != nil {
		return err
	}
	for _, r := range results {
		for _, difference := range []struct {
			sign  string
			names []string
		}{{"+", r.Added}, {"-", r.Removed}, {"~", r.Changed}} {
			for _, name := range difference.names {
				if _, err := fmt.Fprintf(out, "%s %s %s: %s\n", difference.sign, r.Revision, r.Kind, printable(name)); err != nil {
					return err
				}
			}
		}
		if r.More > 0 {
			if _, err := fmt.Fprintf(out, "… %s %s: %d more\n", r.Revision, r.Kind, r.More); err != nil {
				return err
			}
		}
	}
	return nil
}
