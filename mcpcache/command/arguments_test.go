package command

import (
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestWhatIsWanted gives commands too few arguments, too many, and words that
// none of them is called.
func TestWhatIsWanted(t *testing.T) {
	for line, want := range map[string]string{
		"check":              "name the MCP server by its URL: check http://127.0.0.1:3001/mcp",
		"check a b":          "there is an argument too many: name the MCP server by its URL: check http://127.0.0.1:3001/mcp",
		"list":               "name one kind of lists, such as: list tools",
		"list tools prompts": "there is an argument too many: name one kind of lists, such as: list tools",
		"describe tools":     "name a kind and an item: describe tools NAME",
		"refresh tools all":  "there is an argument too many: name one kind of lists or none, such as: refresh tools",
		"statsu":             `unknown command "statsu": did you mean status?`,
		"statsu --json":      `unknown command "statsu": did you mean status?`,
		"stauts":             `unknown command "stauts": did you mean status?`,
		"stat":               `unknown command "stat": did you mean status?`,
		"dance":              `unknown command "dance"; there are check, describe, list, purge, refresh, restart, serve, status, version`,
		"da\x1bnce":          `unknown command "da\x1bnce"; there are check, describe, list, purge, refresh, restart, serve, status, version`,
		// A URL may hold a password.
		"serve http://u:p@h/":     "there is an argument too many: name the MCP server with --to URL, such as: serve --to http://127.0.0.1:3001/mcp, or its command: serve --to 'npx -y NAME'",
		"serve --min_ttl 1m":      "unknown flag: --min_ttl (did you mean --min-ttl?)",
		"serve --min_ttl=1m":      "unknown flag: --min_ttl (did you mean --min-ttl?)",
		"serve --destination x":   "unknown flag: --destination",
		"serve --ur 3001":         "unknown flag: --ur",
		"serve --too 3001":        "unknown flag: --too (did you mean --to?)",
		"serve -x":                "unknown shorthand flag: 'x' in -x",
		"check http://h --haeder": "unknown flag: --haeder (did you mean --header?)",
		"list tools --nam x":      "unknown flag: --nam (did you mean --name?)",
		"check h --era modren":    `--era: "modren" is not one of legacy, modern (did you mean modern?)`,
		"check h --timeout soon":  `invalid argument "soon" for "--timeout" flag: time: invalid duration "soon"`,
	} {
		cmd := &cobra.Command{Use: "caddy", SilenceUsage: true, SilenceErrors: true}
		ours := &cobra.Command{Use: "mcp-cache"}
		addCommands(ours)
		cmd.AddCommand(ours)
		cmd.SetArgs(append([]string{"mcp-cache"}, strings.Split(line, " ")...))
		if err := cmd.Execute(); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", line, err, want)
		}
	}
}

// TestHelpByItself asks for nothing and gets the help.
func TestHelpByItself(t *testing.T) {
	var out strings.Builder
	cmd := &cobra.Command{Use: "mcp-cache"}
	addCommands(cmd)
	cmd.SetArgs(nil)
	cmd.SetOut(&out)
	cmd.SetErr(io.Discard)
	if err := cmd.Execute(); err != nil || !strings.Contains(out.String(), "Tells what an MCP server lets a cache do") {
		t.Errorf("%v:\n%s", err, out.String())
	}
}
