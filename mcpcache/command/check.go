package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/spf13/cobra"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/feed"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/nearest"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/probe"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

const (
	// checkTimeout is how long check waits for one answer.
	checkTimeout = 10 * time.Second
	// checkTotal bounds the whole of it, however slow the server is.
	checkTotal = 2 * time.Minute
)

func newCheckCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check URL",
		Short: "Tells what an MCP server lets a cache do, and what to set",
		Long: `
Asks the MCP server at the URL as a client of either era would, and tells what
a cache in front of it can do: which revisions it speaks, how long its lists
may be kept, who may share them, whether they are the same when asked for
twice, for a client with other capabilities and in either era, whether changes
are announced, how large the lists are, and how many connections it took to ask.
It ends with the Caddyfile that it suggests. It calls no tool and needs no
running Caddy.

--header "Name: value" is sent with each request, such as a token. Where a name
is given twice, the second value is that of another caller, to whose lists the
first one's are compared; he sends the other headers of the first one too.
Placeholders are replaced: with "Authorization: Bearer {env.TOKEN}", the token
is not in the list of processes. No value of a header is ever shown.

In the table, "time" is the slower of two fetches; "twice", "client" and
"caller" say whether the list was the same when asked for again, for a client
with other capabilities, and for the other caller.

An era in which the server fails is named, with the reason. One that it says not
to speak is no failure: the cache calls that "not offered". So is a list that is
not among its capabilities, if it refuses to give it.

One session is open at a time. Only in the end two are, for a moment, to see
whether the server takes more than one.

Exit status 1 if the server cannot be used, with the reason in one line.
`,
		Args: wanted(1, 1, "name the MCP server by its URL: check http://127.0.0.1:3001/mcp"),
	}
	flags := cmd.Flags()
	flags.StringArrayP("header", "H", nil, `Header to send, as "Name: value"; a second one of the same name is another caller's`)
	flags.String("era", "", "Only that era: legacy or modern")
	flags.Duration("timeout", checkTimeout, "How long to wait for one answer")
	flags.Bool("json", false, "Print JSON, for programs")
	cmd.RunE = runCheck
	return cmd
}

// runCheck is not wrapped as Caddy's commands are: Caddy would write its error
// into the log.
func runCheck(cmd *cobra.Command, args []string) error {
	options, err := checkOptions(cmd)
	if err != nil {
		return err
	}
	options.URL = args[0]
	ctx := cmd.Context()
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	found, err := probe.Run(ctx, options)
	if err != nil {
		return err
	}
	asJSON, _ := cmd.Flags().GetBool("json") // it is defined above
	switch {
	case asJSON:
		err = writeJSONTo(cmd.OutOrStdout(), found)
	case len(found.Eras) > 0:
		_, err = fmt.Fprint(cmd.OutOrStdout(), found.Text())
	}
	if err == nil && found.Trouble != nil {
		return errors.New(found.Trouble.Text)
	}
	return err
}

// checkOptions reads the flags.
func checkOptions(cmd *cobra.Command) (options probe.Options, err error) {
	options = probe.Options{Total: checkTotal, MaxList: feed.DefaultMaxList, MaxPages: feed.DefaultMaxPages}
	flags := cmd.Flags()
	if options.Timeout, err = flags.GetDuration("timeout"); err != nil {
		return options, err
	}
	if options.Timeout <= 0 {
		return options, fmt.Errorf("--timeout: %s is no time to wait", options.Timeout)
	}
	headers, err := headersOf(flags)
	if err == nil {
		options.Callers, err = probe.Callers(headers)
	}
	if err != nil {
		return options, fmt.Errorf("--header: %w", err)
	}
	era, err := flags.GetString("era")
	if err != nil {
		return options, err
	}
	switch era {
	case "":
	case revision.Legacy.String():
		options.Eras = []revision.Era{revision.Legacy}
	case revision.Modern.String():
		options.Eras = []revision.Era{revision.Modern}
	default:
		return options, fmt.Errorf("--era: %q is not one of legacy, modern%s", era,
			nearest.Question(era, []string{revision.Legacy.String(), revision.Modern.String()}))
	}
	return options, nil
}
