package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/report"
)

// Exit codes of the operator's commands, besides Caddy's own: 0 for success
// and 1 for a command that could not be carried out.
const (
	// exitNotReady: a handler has no copy of its lists yet, or there is none.
	exitNotReady = 4
	// exitFailing: the cache works, but a feed or a refresh fails.
	exitFailing = 5
)

// exitCodes is what the help texts say about them.
const exitCodes = `
Exit codes: 0 if all is well; 1 if the command could not be carried out; 4 if
there is no handler or one is not ready: it has no copy of its lists yet; 5 if
the handlers are ready, but a feed or a refresh fails.
`

// addOperatorCommands adds the commands that look at a running Caddy and steer
// it, through its admin API.
func addOperatorCommands(cmd *cobra.Command) {
	cmd.AddCommand(newStatusCommand(), newListCommand(), newDescribeCommand(), newRefreshCommand(), newPurgeCommand(), newRestartCommand())
}

// operator adds what those commands have in common: the flags that say where
// the admin API is and which handler is meant, and how run's exit code and error
// reach the shell.
func operator(cmd *cobra.Command, run func(c *adminClient, out io.Writer, args []string) (int, error)) *cobra.Command {
	flags := cmd.Flags()
	flags.String("address", "", "Address of the admin API, if it is not the usual one")
	flags.StringP("config", "c", "", "Configuration file in which to look for the address, if --address is not used")
	flags.StringP("adapter", "a", "", "Name of the config adapter to apply (when --config is used)")
	flags.StringP("name", "n", "", "Name of the handler, if there are several")
	flags.Bool("json", false, "Print JSON, for programs")
	_ = cmd.RegisterFlagCompletionFunc("name", completeHandlers) // fails for flags that do not exist
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		hushCaddy()
		c, err := newAdminClient(caddycmd.Flags{FlagSet: cmd.Flags()}, cmd.ErrOrStderr())
		if err != nil {
			return plainly(cmd, caddy.ExitCodeFailedStartup, err)
		}
		out := cmd.OutOrStdout()
		if c.json {
			out = forTerminal(out)
		}
		code, err := run(c, out, args)
		return plainly(cmd, code, err)
	}
	return cmd
}

// adminClient speaks to the admin API of a running Caddy.
type adminClient struct {
	address string
	name    string // of the handler, "" if the operator did not say
	json    bool   // whether the output is for programs
}

// newAdminClient finds the admin API as Caddy's own commands do. It warns if the
// Caddyfile that happens to be here is of no use for that: somebody may be in the
// middle of changing it.
func newAdminClient(flags caddycmd.Flags, warnings io.Writer) (*adminClient, error) {
	address, config, adapter := flags.String("address"), flags.String("config"), flags.String("adapter")
	happened := false
	if address == "" && config == "" {
		if _, err := os.Stat("Caddyfile"); err == nil {
			config, happened = "Caddyfile", true
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("looking for a Caddyfile: %w", err)
		}
	}
	address, err := caddycmd.DetermineAdminAPIAddress(address, nil, config, adapter)
	switch {
	case err != nil && happened:
		address = caddy.DefaultAdminListen
		fmt.Fprintf(warnings, "Warning: the Caddyfile in this folder cannot be read, so the admin API is looked for at %s: %s\n", address, printable(err.Error()))
	case err != nil:
		return nil, fmt.Errorf("determining the address of the admin API: %w", err)
	}
	return &adminClient{address: address, name: flags.String("name"), json: flags.Bool("json")}, nil
}

// get returns what the admin API answers at the path of those segments.
func (c *adminClient) get(segments ...string) ([]byte, error) {
	return c.sendRequest(http.MethodGet, "", segments...)
}

// sendRequest sends a request to the admin API and returns its answer. The query may
// be "".
func (c *adminClient) sendRequest(method, query string, segments ...string) ([]byte, error) {
	var path strings.Builder
	path.WriteString("/mcp_cache/")
	for i, segment := range segments {
		if i > 0 {
			path.WriteByte('/')
		}
		path.WriteString(escaped(segment))
	}
	if query != "" {
		path.WriteString("?" + query)
	}
	res, err := caddycmd.AdminAPIRequest(c.address, method, path.String(), nil, nil)
	if err != nil {
		switch said := saidBy(err); {
		case strings.HasSuffix(said, report.NotFetched):
			return nil, errors.New(said + "; see caddy mcp-cache status")
		case said != "":
			return nil, errors.New(said)
		}
		if strings.HasPrefix(err.Error(), "performing request: ") { // Caddy keeps the cause to itself
			return nil, fmt.Errorf("asking the admin API at %s: %w: is Caddy running? Where it is elsewhere, say so with --address or CADDY_ADMIN", c.address, err)
		}
		return nil, fmt.Errorf("asking the admin API at %s: %w", c.address, err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, fmt.Errorf("reading the answer of the admin API: %w", err)
	}
	return answer, nil
}

// escaped returns a segment of a path, with the slashes of a URI escaped. Servers
// take the segments "." and ".." for steps on the way, unless they are escaped.
func escaped(segment string) string {
	if segment == "." || segment == ".." {
		return strings.Repeat("%2E", len(segment))
	}
	return url.PathEscape(segment)
}

// saidBy returns what the admin API has to say to a request that failed, if it
// does: Caddy's error has its JSON at the end.
func saidBy(err error) string {
	_, body, found := strings.Cut(err.Error(), ": {")
	var answer struct {
		Error string `json:"error"`
	}
	if !found || json.Unmarshal([]byte("{"+body), &answer) != nil {
		return ""
	}
	return answer.Error
}

// statuses returns how the handlers are: all, or those of the name that the
// operator said.
func (c *adminClient) statuses() ([]report.Status, error) {
	answer, err := c.get()
	if err != nil {
		return nil, err
	}
	var all []report.Status
	if err := json.Unmarshal(answer, &all); err != nil {
		return nil, fmt.Errorf("reading the answer of the admin API: %w", err)
	}
	if c.name == "" {
		return all, nil
	}
	named := []report.Status{}
	for _, status := range all {
		if status.Name == c.name {
			named = append(named, status)
		}
	}
	if len(named) == 0 {
		return nil, fmt.Errorf("no handler is called %q; there are: %s", c.name, strings.Join(namesOf(all), ", "))
	}
	return named, nil
}

// handler returns the name of the one handler that is meant.
func (c *adminClient) handler() (string, error) {
	if c.name != "" {
		return c.name, nil
	}
	all, err := c.statuses()
	if err != nil {
		return "", err
	}
	all = withoutServers(all)
	switch len(all) {
	case 0:
		return "", errors.New("this Caddy runs no mcp_cache handler")
	case 1:
		return all[0].Name, nil
	}
	text := "there are several handlers, choose one with --name: " + strings.Join(placesOf(all), ", ")
	if names := namesOf(all); len(slices.Compact(slices.Sorted(slices.Values(names)))) < len(names) {
		text += "; give those of one name different ones first, with the option name"
	}
	return "", errors.New(text)
}

// withoutServers leaves out the servers of toolkits: who names none means the toolkit.
func withoutServers(statuses []report.Status) []report.Status {
	servers := make(map[string]bool)
	for _, status := range statuses {
		for _, s := range status.Servers {
			servers[s.Name] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(statuses), func(s report.Status) bool { return servers[s.Name] })
}

// placesOf returns the names of handlers, each with what it is in front of.
func placesOf(statuses []report.Status) []string {
	places := namesOf(statuses)
	for i, status := range statuses {
		places[i] += " (" + strings.Join(behind(status), ", ") + ")"
	}
	return places
}

func namesOf(statuses []report.Status) []string {
	names := make([]string, len(statuses))
	for i, status := range statuses {
		names[i] = status.Name
	}
	return names
}

// completeHandlers completes a handler's name.
func completeHandlers(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	c, err := newAdminClient(caddycmd.Flags{FlagSet: cmd.Flags()}, io.Discard)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	c.name = ""
	statuses, err := c.statuses()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return namesOf(statuses), cobra.ShellCompDirectiveNoFileComp
}

// writeJSONTo writes a value for programs, one line to each member.
func writeJSONTo(out io.Writer, value any) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}
