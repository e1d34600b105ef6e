package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/report"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// shownDescription is how many characters of a description a table shows.
const shownDescription = 72

func newListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list KIND",
		Short: "Lists the tools, prompts, resources or resource templates in the cache",
		Long: `
Lists the items of one kind as the cache has them: tools, prompts, resources or
resource_templates. Resources are called by their URIs, templates by their URI
templates. --like leaves only those whose name matches a pattern with *, ? and
[a-z].
`,
		Args:              wanted(1, 1, "name one kind of lists, such as: list tools"),
		ValidArgsFunction: completeKinds,
	}
	like := cmd.Flags().String("like", "", "Pattern that names have to match")
	return operator(cmd, func(c *adminClient, out io.Writer, args []string) (int, error) {
		name, err := c.handler()
		if err != nil {
			return caddy.ExitCodeFailedStartup, err
		}
		items, err := c.items(name, args[0], *like)
		if err != nil {
			return caddy.ExitCodeFailedStartup, err
		}
		switch {
		case c.json:
			err = writeJSONTo(out, items)
		case len(items) == 0 && *like != "":
			_, err = fmt.Fprintf(out, "Nothing in %s matches %q.\n", args[0], *like)
		default:
			err = writeTable(out, itemRows(items))
		}
		return codeOf(err), err
	})
}

func newDescribeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "describe KIND ITEM",
		Short: "Shows one tool, prompt, resource or resource template in the cache",
		Long: `
Shows one item with all its members, by the name that list shows. The members
are those that the upstream wrote, in its order, indented for people. With
--json, they are printed byte for byte.
`,
		Args:              wanted(2, 2, "name a kind and an item: describe tools NAME"),
		ValidArgsFunction: completeItems,
	}
	return operator(cmd, func(c *adminClient, out io.Writer, args []string) (int, error) {
		name, err := c.handler()
		if err != nil {
			return caddy.ExitCodeFailedStartup, err
		}
		if _, err := report.ListKind(args[0]); err != nil { // an empty one would be lost in the path
			return caddy.ExitCodeFailedStartup, err
		}
		item, err := c.get(name, args[0], args[1])
		if err != nil {
			return caddy.ExitCodeFailedStartup, err
		}
		if !c.json {
			if item, err = indented(item); err != nil {
				return caddy.ExitCodeFailedStartup, err
			}
		}
		_, err = fmt.Fprintf(out, "%s\n", item)
		return codeOf(err), err
	})
}

func codeOf(err error) int {
	if err != nil {
		return caddy.ExitCodeFailedStartup
	}
	return caddy.ExitCodeSuccess
}

// items returns the items of a kind whose names match the pattern, if there is
// one.
func (c *adminClient) items(handler, kind, like string) ([]report.Summary, error) {
	query := ""
	if like != "" {
		query = url.Values{"like": {like}}.Encode()
	}
	answer, err := c.ask("GET", query, handler, kind)
	if err != nil {
		return nil, err
	}
	var items []report.Summary
	if err := json.Unmarshal(answer, &items); err != nil {
		return nil, fmt.Errorf("reading the answer of the admin API: %w", err)
	}
	return items, nil
}

func itemRows(items []report.Summary) [][]string {
	rows := headed(len(items), "NAME", "TITLE", "DESCRIPTION")
	for _, item := range items {
		rows = append(rows, []string{item.Name, item.Title, shorten(printable(item.Description), shownDescription)})
	}
	return rows
}

// indented breaks a JSON text into lines, for a terminal.
func indented(raw []byte) ([]byte, error) {
	var out bytes.Buffer
	if err := json.Indent(&out, raw, "", "  "); err != nil {
		return nil, fmt.Errorf("reading the item: %w", err)
	}
	lines := strings.Split(out.String(), "\n")
	for i, line := range lines {
		lines[i] = printable(line)
	}
	return []byte(strings.Join(lines, "\n")), nil
}

// completeKinds completes the name of a kind that has items.
func completeKinds(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var names []string
	if len(args) == 0 {
		for _, k := range revision.Kinds() {
			if k.ItemsKey() != "" {
				names = append(names, k.String())
			}
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeItems completes a kind, then the name of one of its items.
func completeItems(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) != 1 {
		return completeKinds(cmd, args, typed)
	}
	c, err := newAdminClient(caddycmd.Flags{FlagSet: cmd.Flags()})
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	name, err := c.handler()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	items, err := c.items(name, args[0], "")
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []string
	for _, item := range items {
		if item.Name == printable(item.Name) {
			names = append(names, item.Name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
