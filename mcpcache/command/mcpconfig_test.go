package command

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// printedOf returns what serve prints with those flags; HERE stands for this directory.
func printedOf(t *testing.T, args ...string) string {
	t.Helper()
	s, err := servingOf(t, append([]string{"--print"}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	text, err := s.print()
	if err != nil {
		t.Fatal(err)
	}
	if formatted := string(caddyfile.Format([]byte(text))); formatted != text {
		t.Errorf("caddy fmt writes\n%s\nof\n%s", formatted, text)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(text, here, "HERE")
}

// mcpConfigFile writes a file of clients.
func mcpConfigFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "mcp.json")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

const clientsServers = "\ufeff" + `{
	"inputs": [],
	"mcpServers": {
		"My Files!": {
			"command": "npx", "args": ["-y", "files", "${HOME}/docs", "{\"a\": 1}", 3], "autoApprove": ["read"], // mine
			"env": {"TOKEN": "${MCP_CACHE_TEST_TOKEN}", "HEADERS": "{\"Authorization\": \"Bearer s3cret\"}", "DEBUG": "", "PORT": 3000, "NONE": null},
		},
		"git": {"type": "stdio", "command": "uvx", "args": ["mcp-server-git"], "cwd": "${env:HOME}"},
		"off": {"command": 5, "disabled": true},
		"old": {"type": "sse", "url": "http://h/"},
		"me": {"url": "http://localhost:8080/mcp"},
		"too": {"command": "npx", "enabled": false},
	},
	"servers": {
		"GitHub": {
			"type": "http", "url": "https://mcp.example.com/mcp/",
			"headers": {"Authorization": "Bearer ${MCP_CACHE_TEST_TOKEN}", "accept": "application/json"}
		}
	}
}`

// TestServePrints has serve print Caddyfiles.
func TestServePrints(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"a URL": {[]string{"--to", "3001"}, `http://:8080 {
	bind 127.0.0.1
	mcp_cache http://127.0.0.1:3001/mcp
}
`},
		"headers": {[]string{"--from", "localhost:0", "--to", "3001", "-H", "authorization: Bearer {env.MCP_CACHE_TEST_NONE}", "--min-ttl", "1m"}, `http://:0 {
	bind localhost
	mcp_cache http://127.0.0.1:3001/mcp {
		store off
		min_ttl 1m
		reverse_proxy {
			header_up Authorization "Bearer {env.MCP_CACHE_TEST_NONE}"
		}
	}
}
`},
		"a command": {[]string{"--from", ":8081", "--to", `npx -y 'a b' "c\"d" {env.HOME}`}, `http://:8081 {
	mcp_cache stdio npx -y "a b" ` + "`c\"d`" + ` {env.HOME} {
		stdio {
			dir HERE
		}
	}
}
`},
		"several": {[]string{"--to", "git=uvx mcp-server-git", "--to", "docs=3001", "--to", "x=./server", "--to", "y=/usr/bin/y", "--log", "a log"}, `{
	log {
		output file "a log"
		format json
	}
}

http://:8080 {
	bind 127.0.0.1
	mcp_cache {
		server git stdio uvx mcp-server-git {
			stdio {
				dir HERE
			}
		}
		server docs http://127.0.0.1:3001/mcp
		server x stdio ./server {
			stdio {
				dir HERE
			}
		}
		server y stdio /usr/bin/y {
			stdio {
				dir HERE
			}
		}
	}
}
`},
		"a file of clients": {[]string{"--mcp-config", mcpConfigFile(t, clientsServers)}, `http://:8080 {
	bind 127.0.0.1
	mcp_cache {
		store off
		server my-files- stdio npx -y files {env.HOME}/docs ` + "`\\{\"a\": 1\\}`" + ` 3 {
			stdio {
				env DEBUG ""
				env HEADERS ` + "`\\{\"Authorization\": \"Bearer s3cret\"\\}`" + `
				env PORT 3000
				env TOKEN {env.MCP_CACHE_TEST_TOKEN}
				dir HERE
			}
		}
		server git stdio uvx mcp-server-git {
			stdio {
				dir {env.HOME}
			}
		}
		server github https://mcp.example.com/mcp/ {
			reverse_proxy {
				header_up Authorization "Bearer {env.MCP_CACHE_TEST_TOKEN}"
			}
		}
	}
}
`},
	} {
		t.Run(name, func(t *testing.T) {
			if got := printedOf(t, c.args...); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

// TestServeHidesSecrets serves a file of clients: values are neither in the configuration, nor
// in what is said of it.
func TestServeHidesSecrets(t *testing.T) {
	for _, variable := range []string{"MCP_CACHE_SERVE_1", "MCP_CACHE_SERVE_2", "MCP_CACHE_SERVE_3", "MCP_CACHE_SERVE_4"} {
		t.Setenv(variable, "")
	}
	t.Setenv("MCP_CACHE_TEST_TOKEN", "s3cret{2}")
	from, err := freeAddress(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(from)
	s, err := servingOf(t, "--from", from, "--mcp-config", mcpConfigFile(t, strings.Replace(clientsServers, "8080", port, 1)))
	if err != nil {
		t.Fatal(err)
	}
	config, err := s.config(inEnvironment())
	if err != nil {
		t.Fatal(err)
	}
	said := s.behind() + "\n" + s.remarks()
	if strings.Contains(string(config)+said, "s3cret") {
		t.Errorf("it shows a secret: %s\n%s", config, said)
	}
	want := []string{`{"Authorization": "Bearer s3cret"}`, "3000", "s3cret{2}", "Bearer s3cret{2}"}
	if got := []string{os.Getenv("MCP_CACHE_SERVE_1"), os.Getenv("MCP_CACHE_SERVE_2"), os.Getenv("MCP_CACHE_SERVE_3"), os.Getenv("MCP_CACHE_SERVE_4")}; !slices.Equal(got, want) {
		t.Errorf("it keeps %q, want %q", got, want)
	}
	for _, want := range []string{
		"my-files- at the program npx, git at the program uvx, github at https://mcp.example.com/mcp/\n",
		"Each request to github carries the Authorization that you have given: whoever reaches the cache acts with that.\n",
		"Not used: inputs, My Files!.autoApprove, off, which is disabled, old, which is of type sse, the transport of 2024-11-05, too, which is disabled, GitHub.headers.accept, me, which is this cache itself.\n",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("it says %s, want %s", said, want)
		}
	}
}

// TestServeRefusesFiles gives serve files that it cannot use.
func TestServeRefusesFiles(t *testing.T) {
	t.Setenv("MCP_CACHE_TEST_EMPTY", "")
	server := func(text string) string { return `{"mcpServers": {"A": ` + text + `}}` }
	for file, want := range map[string]string{
		``:                               `line 1 is not JSON: unexpected end of JSON input`,
		`[]`:                             `it is not a JSON object`,
		`{`:                              `line 1 is not JSON: unexpected end of JSON input`,
		"{\n// mine\n\"mcpServers\": [}": "line 3 is not JSON: invalid character '}' looking for beginning of value",
		`{"mcpServers": {}} {}`:          `line 1 is not JSON: invalid character '{' after top-level value`,
		`{"mcpServers": []}`:             `mcpServers: it is not a JSON object`,
		`{"servers": {}}`:                `it has no server to use: they are members of mcpServers, or of servers`,
		server(`{"command": "x", "disabled": true}`):   `it has no server to use: they are members of mcpServers, or of servers; not used is A, which is disabled`,
		server(`{"command": "x", "args": [[]]}`):       `"A": args cannot be a JSON array`,
		server(`{"comand": "x", "URL": "http://h/"}`):  `"A": it has neither a command nor a url, but comand, URL`,
		`{"context_servers": {"A": {"command": "x"}}}`: `it has no server to use: they are members of mcpServers, or of servers; not used is context_servers`,
		server(`3`):  `"A": it is not a JSON object`,
		server(`{}`): `"A": it has neither a command nor a url`,
		server(`{"command": "x", "url": "http://h/"}`):                           `"A": it has both a command and a url`,
		server(`{"command": ""}`):                                                `"A": its command is empty`,
		server(`{"command": ["x"]}`):                                             `"A": command cannot be a JSON array`,
		server(`{"command": "x", "env": {"P": [3]}}`):                            `"A": env cannot be a JSON array`,
		server(`{"command": "x", "headers": {"A": "s3cret"}}`):                   `"A": headers are for a url: a program is sent none`,
		server(`{"command": "x", "type": "http"}`):                               `"A": type "http" does not fit: it is stdio for a command, and http for a url`,
		server(`{"url": "http://h/", "type": "stdio"}`):                          `"A": type "stdio" does not fit: it is stdio for a command, and http for a url`,
		server(`{"url": "http://h/", "type": "sse"}`):                            `it has no server to use: they are members of mcpServers, or of servers; not used is A, which is of type sse, the transport of 2024-11-05`,
		server(`{"url": "http://h/?key=s3cret"}`):                                `"A": the URL has a query or fragment, which an upstream of the cache cannot have: it has to be like http://127.0.0.1:3001/mcp`,
		server(`{"url": "http://${HOST}/"}`):                                     `"A": url: a variable cannot be a part of it`,
		server(`{"url": "http://h/", "headers": {"Host": "a"}}`):                 `"A": header Host is the protocol's own and cannot be chosen`,
		server(`{"url": "http://h/", "headers": {"X": "${MCP_CACHE_TEST_NO}"}}`): `"A": headers X: the variable MCP_CACHE_TEST_NO of the environment is not set`,
		server(`{"command": "x", "args": ["${MCP_CACHE_TEST_EMPTY}"]}`):          `"A": args: the variable MCP_CACHE_TEST_EMPTY of the environment is empty`,
		server(`{"command": "x", "env": {"T": "${input:token}"}}`):               `"A": env T: ${input:token} is not known: a variable of the environment is ${NAME}`,
		server(`{"command": "x", "cwd": "\\${HOME}"}`):                           `"A": cwd: a backslash cannot stand before ${HOME}`,
		`{"mcpServers": {"A b": {"command": "x"}, "a-B": {"command": "y"}}}`:     `"a-B": two servers are called a-b`,
		`{"mcpServers": {"A": {"command": "x"}, "A": {"command": "y"}}}`:         `"A": two servers are called a`,
	} {
		name := mcpConfigFile(t, file)
		_, err := servingOf(t, "--from", "127.0.0.1:0", "--mcp-config", name)
		if err == nil || err.Error() != "--mcp-config: "+name+": "+want || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: got\n%v, want\n--mcp-config: %s: %s", file, err, name, want)
		}
	}
}
