package command

import (
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	_ "github.com/caddy-mcp/mcp-cache/caddyfile"
)

// servingOf reads those flags.
func servingOf(t *testing.T, args ...string) (*serving, error) {
	t.Helper()
	cmd := newServeCommand()
	if err := cmd.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	return newServing(t.Context(), caddycmd.Flags{FlagSet: cmd.Flags()})
}

// TestServeNamesAllMistakes gives serve several flags that it cannot use.
func TestServeNamesAllMistakes(t *testing.T) {
	t.Setenv("MCP_CACHE_TEST_LINES", "s3cret\ns3cret")
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	badName := mcpConfigFile(t, `{"mcpServers": {"Tools": {"url": "http://h/"}}}`)
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"all of them": {
			[]string{"--header", "s3cret", "--from", "here", "--to", "ftp://h/", "--min-ttl", "soon"},
			`--to: the URL is not one of http or https: it has to be like http://127.0.0.1:3001/mcp; ` +
				`--header: header 1 is not of the form "Name: value"; --from: "here" is not host:port or :port; --min-ttl: "soon" is no duration such as 1m`,
		},
		"what the directive finds": {
			[]string{"--to", "http://h/a%7Bb", "--min-ttl", "25h"},
			`--to: upstream URL "http://h/a%7Bb" must have one clean absolute path, such as /mcp, of visible ASCII without ? # % \ { }; ` +
				`--min-ttl: "25h" is not from 0 to 24h0m0s`,
		},
		"a password":       {[]string{"--to", "http://u:s3cret@h/"}, `--to: the URL holds a user or password, which the cache takes from no URL: give them as --header "Authorization: Basic …"`},
		"one name twice":   {[]string{"-H", "X-A: s3cret", "-H", "x-a: s3cret"}, "--header: header X-A is given twice"},
		"the protocol's":   {[]string{"-H", "Mcp-Session-Id: s3cret"}, "--header: header Mcp-Session-Id is the protocol's own and cannot be chosen"},
		"a header removed": {[]string{"-H", "-Authorization: s3cret"}, `--header: header 1 is not of the form "Name: value"`},
		"no variable":      {[]string{"-H", "X-A: a", "-H", "X-B: {env.MCP_CACHE_TEST_NONE}"}, `--header: header 2 has a placeholder that is empty or unknown: such as {env.NAME} and {file.PATH} are known, and \{ is a brace`},
		"no placeholder":   {[]string{"-H", `X-A: {"k":"s3cret"}`}, `--header: header 1 has a placeholder that is empty or unknown: such as {env.NAME} and {file.PATH} are known, and \{ is a brace`},
		"two lines":        {[]string{"-H", "X-A: {env.MCP_CACHE_TEST_LINES}"}, "--header: the value of header 1, X-A, has characters that a header cannot have"},
		"no value":         {[]string{"-H", "X-A:"}, "--header: header 1, X-A, has no value"},
		"no header":        {[]string{"--header="}, `--header: header 1 is not of the form "Name: value"`},
		"a name from afar": {[]string{"-H", "{env.MCP_CACHE_TEST_LINES}: x"}, `--header: header 1 is not of the form "Name: value"`},
		"no URL":           {[]string{"--to", ""}, "--to: the URL names no host: it has to be like http://127.0.0.1:3001/mcp"},
		"two without names": {
			[]string{"--to", "3001", "--to", "3002"},
			`--to: "3001" has no name: give each of several servers one, such as --to 'docs=3001'`,
		},
		"one without a name": {
			[]string{"--to", "docs=3001", "--to", "3002"},
			`--to: "3002" has no name: give each of several servers one, such as --to 'docs=3002'`,
		},
		"one name for two": {[]string{"--to", "docs=3001", "--to", "docs=3002"}, "--to: two servers are called docs"},
		"a bad name":       {[]string{"--to", "My_docs=3001"}, `--to: server: name: "My_docs" is not 1 to 32 of a-z, 0-9 and -`},
		"a bad URL of two": {[]string{"--to", "docs=ftp://h/", "--to", "b=1"}, "--to: docs: the URL is not one of http or https: it has to be like http://127.0.0.1:3001/mcp"},
		"a header for two": {
			[]string{"--to", "docs=3001", "--to", "b=3002", "-H", "X-A: s3cret"},
			"--header: not with several servers: each of them would be sent it; write a Caddyfile with a reverse_proxy in the block of the server that it is for",
		},
		"a variable": {
			[]string{"--to", "TOKEN=s3cret npx x"},
			`--to: "TOKEN" is not the name of a server, which has up to 32 of a-z, 0-9 and -; variables of a program are set with --mcp-config, or in a Caddyfile`,
		},
		"an open quote":   {[]string{"--to", "docs=npx 'x"}, "--to: docs: the command has a quote that does not end"},
		"an empty word":   {[]string{"--to", "'' x"}, "--to: the command is empty"},
		"a URL and words": {[]string{"--to", "http://h/ x"}, "--to: upstream URL \"http://h/%20x\" must have one clean absolute path, such as /mcp, of visible ASCII without ? # % \\ { }"},
		"headers for a program": {
			[]string{"--to", "npx x", "-H", "X-A: s3cret"},
			"--header: a program is sent no headers; what it needs, such as a token, it has from its environment: see --mcp-config",
		},
		"a command without a name": {
			[]string{"--to", "docs=3001", "--to", "npx x"},
			`--to: "npx x" has no name: give each of several servers one, such as --to 'docs=npx x'`,
		},
		"a file besides": {[]string{"--to", "3001", "--mcp-config", "nowhere"}, "--mcp-config: its servers are a toolkit of their own; give either this or --to"},
		"no such file":   {[]string{"--mcp-config", "nowhere"}, "--mcp-config: open nowhere: no such file or directory"},
		"no file":        {[]string{"--mcp-config", ""}, "--mcp-config: open : no such file or directory"},
		"a program without arguments": {
			[]string{"--to", "docs=sh"}, `--to: docs: "sh" may be a program, or a host: a command without arguments is written ` + shell + `, and a URL http://sh`,
		},
		"itself": {[]string{"--from", "127.0.0.1:3002", "--to", "http://localhost:3002/mcp", "--print"}, "--from: 127.0.0.1:3002 is the address of the server to be served, too: give serve another one"},
		"nothing to print": {
			[]string{"--print"}, "--print: name a server, with --to or --mcp-config: the demo server lives as long as serve",
		},
		"a file's headers, open to others": {
			[]string{"--from", ":0", "--mcp-config", mcpConfigFile(t, `{"mcpServers": {"a": {"url": "http://h/", "headers": {"X-A": "s3cret"}}}}`)},
			"--from: with headers, whoever reaches the cache acts with them, so it has to listen on a loopback address, such as 127.0.0.1:8080",
		},
		"a file's bad name": {
			[]string{"--mcp-config", badName},
			`--mcp-config: ` + badName + `: "Tools": server: name: "tools" has another meaning; no server can be called tools, prompts, resources, resource_templates, discover, refresh, restart, purge`,
		},
		"open to others": {
			[]string{"--from", ":0", "-H", "X-A: s3cret"},
			"--from: with headers, whoever reaches the cache acts with them, so it has to listen on a loopback address, such as 127.0.0.1:8080",
		},
		"open, and more": {
			[]string{"--from", "0.0.0.0:0", "-H", "s3cret"},
			`--header: header 1 is not of the form "Name: value"; ` +
				"--from: with headers, whoever reaches the cache acts with them, so it has to listen on a loopback address, such as 127.0.0.1:8080",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := servingOf(t, append([]string{"--from", "127.0.0.1:0"}, c.args...)...); err == nil || err.Error() != c.want {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

// TestServeReadsHeaders gives serve headers, also from its environment.
func TestServeReadsHeaders(t *testing.T) {
	t.Setenv("MCP_CACHE_TEST_TOKEN", "s3cret{")
	s, err := servingOf(t, "--from", "localhost:0", "-H", "authorization: Bearer {env.MCP_CACHE_TEST_TOKEN}", "--header", `X-A: \{a\}`)
	if err != nil {
		t.Fatal(err)
	}
	if header := s.servers[0].header; header.Get("Authorization") != "Bearer s3cret{" || header.Get("X-A") != "{a}" || len(header) != 2 {
		t.Errorf("the headers are %v", header)
	}
	const says = "Each request to the server carries the Authorization, X-A that you have given: whoever reaches the cache acts with that.\n"
	if got := s.remarks(); !strings.HasPrefix(got, says) || strings.Contains(got, "s3cret") {
		t.Errorf("it says %s", got)
	}
	if s, err := servingOf(t, "--from", ":0"); err != nil || !s.servers[0].isDemo() || len(s.servers[0].header) > 0 {
		t.Errorf("without flags: %+v, %v", s, err)
	}
}

// TestServeSaysWhoIsLetIn asks a server that lets in nobody, with a credential and
// without.
func TestServeSaysWhoIsLetIn(t *testing.T) {
	host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer host.Close()
	server := host.URL + "/mcp"
	for want, header := range map[string]http.Header{
		"asks for credentials. Clients' own go through to it; for the cache's, write a Caddyfile with a guard, or try --header \"Authorization: Bearer …\", with which all clients act then": nil,
		"does not accept these credentials (401): give others, such as a token that has not expired and is for this server":                                                                  {"Authorization": {"Bearer s3cret"}},
	} {
		if got := whyNot(t.Context(), server, header); got != "Trouble: "+server+" "+want {
			t.Errorf("it says %s", got)
		}
	}
}

// TestServeSaysWhoReachesIt tells where serve listens, and how to see its status.
func TestServeSaysWhoReachesIt(t *testing.T) {
	const everywhere = "It listens on all addresses of this machine: whoever reaches one of them "
	for from, who := range map[string]string{
		"127.0.0.1:8080": "", "[::1]:8080": "", "localhost:8080": "", ":8080": everywhere, "0.0.0.0:8080": everywhere, "[::]:8080": everywhere,
		"192.0.2.1:8080": "It listens on 192.0.2.1: whoever reaches that ", "[2001:db8::1]:80": "It listens on 2001:db8::1: whoever reaches that ",
	} {
		program := (&serving{from: from, servers: []served{{name: "a", url: "http://127.0.0.1:1/mcp"}, {name: "b", command: []string{"x", "y"}}}}).remarks()
		if want := who + "runs programs here, with your rights.\n"; (who != "") != strings.HasPrefix(program, want) {
			t.Errorf("%s, a program: it says\n%s", from, program)
		}
		for _, admin := range []string{caddy.DefaultAdminListen, "127.0.0.1:4321"} {
			want := "Caddy's admin API is at " + admin + "."
			if who != "" {
				want = who + "can use the server.\n" + want
			}
			if admin != caddy.DefaultAdminListen {
				want += " See how the cache is: caddy mcp-cache status --address 127.0.0.1:4321"
			}
			if got := (&serving{from: from, admin: admin}).remarks(); got != want+"\n" {
				t.Errorf("%s, %s: it says\n%s", from, admin, got)
			}
		}
	}
}
