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

Where there are rules of who may see what, --as shows the list as a caller is
shown it. It says of a caller KEY=VALUE, and can be given several times. KEY is a
placeholder that the rules ask for, such as {groups} or http.auth.user.id, or
header.NAME, vars.NAME, host or remote_ip. With --why what is hidden is listed,
too, and what decides about each item; without --as, for a caller of whom
nothing is known. Rules are numbered in the order of the configuration, from 0
on.
`,
		Args:              wanted(1, 1, "name one kind of lists, such as: list tools"),
		ValidArgsFunction: completeKinds,
	}
	var q listing
	cmd.Flags().StringVar(&q.like, "like", "", "Pattern that names have to match")
	cmd.Flags().StringArrayVar(&q.as, "as", nil, "What a caller has, as KEY=VALUE: lists what it is shown (repeatable)")
	cmd.Flags().BoolVar(&q.why, "why", false, "Also list what is hidden from the caller, and what decides")
	return operator(cmd, func(c *adminClient, out io.Writer, args []string) (int, error) {
		name, err := c.handler()
		if err != nil {
			return caddy.ExitCodeFailedStartup, err
		}
		items, err := c.items(name, args[0], q)
		if err != nil {
			return caddy.ExitCodeFailedStartup, err
		}
		switch {
		case c.json:
			err = writeJSONTo(out, items)
		case len(items) == 0 && q.as != nil:
			_, err = fmt.Fprintf(out, "Such a caller is shown nothing of %s.\n", args[0])
		case len(items) == 0 && q.like != "":
			_, err = fmt.Fprintf(out, "Nothing in %s matches %q.\n", args[0], q.like)
		case q.why:
			err = writeTable(out, whyRows(items))
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

// listing is what is asked of a list.
type listing struct {
	like string   // names have to match it; "": all
	as   []string // of a caller
	why  bool     // what decides about each item
}

func (q listing) query() string {
	values := make(url.Values)
	if q.like != "" {
		values.Set("like", q.like)
	}
	if q.as != nil {
		values["as"] = q.as
	}
	if q.why {
		values.Set("why", "1")
	}
	return values.Encode()
}

// items returns the items of a kind that are asked for.
func (c *adminClient) items(handler, kind string, q listing) ([]report.Summary, error) {
	answer, err := c.sendRequest("GET", q.query(), handler, kind)
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

// whyRows says of each item what decides whether a caller is shown it.
func whyRows(items []report.Summary) [][]string {
	rows := headed(len(items), "NAME", "ACCESS", "RULE", "WHO")
	for _, item := range items {
		access, rule, who := "hidden", item.Why.Reason, ""
		if item.Why.Allowed {
			access = "allowed"
		}
		if r := item.Why.Rule; r != nil {
			rule, who = fmt.Sprintf("%d: %s", r.Number, r), "everybody"
			if item.Why.Server != "" {
				rule = item.Why.Server + " " + rule
			}
			if r.Match != nil {
				who = string(r.Match)
			}
			if item.Why.Reason != "" {
				who += ": " + item.Why.Reason
			}
		}
		rows = append(rows, []string{item.Name, access, rule, who})
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
	c, err := newAdminClient(caddycmd.Flags{FlagSet: cmd.Flags()}, io.Discard)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	name, err := c.handler()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	items, err := c.items(name, args[0], listing{})
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
