package documents

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// fragments are the directives and options with which a piece of a Caddyfile
// begins in the documents, and where it belongs. A %s is its place.
var fragments = map[string]string{
	"mcp_cache":     ":8080 {\n%s\n}",
	"forward_auth":  ":8080 {\n%s\nmcp_cache http://127.0.0.1:3001/mcp {\nadmit all\n}\n}",
	"guard":         ":8080 {\nmcp_cache http://127.0.0.1:3001/mcp {\n%s\n}\n}",
	"reverse_proxy": ":8080 {\nmcp_cache http://127.0.0.1:3001/mcp {\n%s\n}\n}",
}

// TestDocumentedConfigurations adapts and validates every piece of configuration
// in the documents.
func TestDocumentedConfigurations(t *testing.T) {
	for _, file := range documents(t) {
		for _, block := range caddytest.CodeBlocks(t, file) {
			first, _, _ := strings.Cut(strings.TrimSpace(block.Text), " ")
			place, fragment := fragments[first]
			switch {
			case block.Language == "text":
			case block.Language == "json":
				if !json.Valid([]byte(block.Text)) {
					t.Errorf("%s: not valid JSON", block)
				}
			case block.Language == "caddyfile" && strings.Contains(block.Text, "<option>"):
				// How the directive is written. The table says with which options.
			case fragment:
				for _, statement := range statements(block.Text) {
					validateDocumented(t, block, fmt.Sprintf(place, statement))
				}
			case block.Language == "caddyfile":
				validateDocumented(t, block, block.Text)
			case block.Language == "dockerfile" && strings.HasSuffix(file, "examples/container/README.md"):
				// The step container builds it.
			case block.Language != "":
				t.Errorf("%s: this test cannot check a block of %s", block, block.Language)
			}
		}
	}
}

// statements cuts a piece of a Caddyfile into its outermost statements.
func statements(text string) []string {
	var all []string
	var one strings.Builder
	depth := 0
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) == "" && depth == 0 {
			continue
		}
		one.WriteString(line)
		code, _, _ := strings.Cut(strings.TrimSpace(line), " #")
		if strings.HasSuffix(code, "{") {
			depth++
		}
		if code == "}" {
			depth--
		}
		if depth == 0 {
			all = append(all, one.String())
			one.Reset()
		}
	}
	return all
}

func validateDocumented(t *testing.T, block caddytest.CodeBlock, source string) {
	t.Helper()
	caddytest.SetVariables(t, []byte(source))
	adapted, warnings, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(source), nil)
	if err != nil {
		t.Errorf("%s: adapting: %v", block, err)
		return
	}
	for _, w := range warnings {
		if !strings.Contains(w.Message, "not formatted") {
			t.Errorf("%s: adapting warns: %v", block, w)
		}
	}
	var config caddy.Config
	if err := json.Unmarshal(adapted, &config); err != nil {
		t.Fatalf("%s: %v", block, err)
	}
	config.StorageRaw = json.RawMessage(fmt.Sprintf(`{"module":"file_system","root":%q}`, t.TempDir()))
	config.Logging = &caddy.Logging{Logs: map[string]*caddy.CustomLog{"default": {
		BaseLog: caddy.BaseLog{WriterRaw: json.RawMessage(`{"output":"discard"}`)},
	}}}
	if err := caddy.Validate(&config); err != nil {
		t.Errorf("%s: validating: %v", block, err)
	}
}

// command is a shell command in the documents.
type command struct {
	pattern string
	// check runs it, or says why it cannot be run.
	check func(t *testing.T, folder string, match []string)
}

// elsewhere is the check of a command that cannot be run here, with the reason.
func elsewhere(reason string) func(*testing.T, string, []string) {
	return func(t *testing.T, _ string, match []string) { t.Logf("%s: not run, %s", match[0], reason) }
}

// ourCaddy begins with what runs a Caddy with this module.
const ourCaddy = `^(?:go run \./examples/caddy|caddy)`

// commands are all that the documents may name.
var commands = []command{
	{ourCaddy + ` mcp-cache serve$`, serveDemo},
	{ourCaddy + ` mcp-cache serve --to (\S+)$`, serveUpstream},
	{ourCaddy + ` mcp-cache check (\S+)$`, checkUpstream},
	{ourCaddy + ` (mcp-cache (?:status|list|describe|refresh|purge|restart|version)\b.*)$`, knowsFlags},
	{`^(?:[A-Z_]+=\.\.\. )*go run \./caddy run --config (\S+)$`, func(t *testing.T, folder string, match []string) {
		hasFile(t, filepath.Join(folder, "caddy", "main.go"))
		adaptFile(t, folder, match)
	}},
	{ourCaddy + ` mcp-cache serve --to 'npx -y @modelcontextprotocol/(?:server-everything stdio|server-filesystem /srv/docs)'$`, elsewhere("it downloads packages")},
	{ourCaddy + ` (mcp-cache serve (?:--mcp-config|--from) \S+)$`, knowsFlags},
	{`^(?:[A-Z_]+=\S+ )*(?:\./)?caddy run --config (\S+)$`, adaptFile},
	{`^redis-server --save ''$`, elsewhere("TestFleetExample has one of its own")},
	{`^curl -si -w '\\n\\n' 'http://127\.0\.0\.1:(?:8080|\{8080,8081\})/mcp' `, elsewhere("TestFleetExample runs it")},
	{`^go run \./integration/bench(?: |$)`, elsewhere("it measures for minutes: .ci/run bench")},
	{`^git clone https://github\.com/caddy-mcp/mcp-cache && cd mcp-cache$`, elsewhere("it downloads what is here")},
	{`^(?:curl -LO? https://github\.com/caddy-mcp/mcp-cache/releases/latest/download/|tar xzf |sha256sum --check --ignore-missing )` +
		`(?:mcp_cache_linux_amd64\.tar\.gz|checksums\.txt)(?: \| tar xz)?$`, elsewhere("the step release looks for these files")},
	{`^docker (?:build -t mcp-cache(?:-node)? (?:--build-arg BASE=node:24-slim )?-f (examples/container/Dockerfile) \.|compose .*)$`, elsewhere("the step container does it with Podman")},
	{`^docker run --rm --init --network host mcp-cache (mcp-cache serve --to \S+)$`, knowsFlags},
	{`^go test \./\.\.\.$`, elsewhere("this test is part of it")},
	{`^go build -o caddy (\./examples/caddy)$`, hasMain},
	{`^xcaddy build (?:v\S+ )?--with (github\.com/caddy-mcp/mcp-cache)(?:@v0\.0\.0=\.|@v\d+\.\d+\.\d+)?(?: --with github\.com/caddy-mcp/mcp-cache/(\S+))?$`, hasPackage},
	{`^npx @modelcontextprotocol/inspector --cli http://127\.0\.0\.1:8080/mcp `, elsewhere("it needs Node.js and downloads a package")},
}

// TestDocumentedCommands runs every shell command in the documents that can be
// run without a network. A command that this test does not know is an error.
func TestDocumentedCommands(t *testing.T) {
	for _, file := range documents(t) {
		for _, block := range caddytest.CodeBlocks(t, file) {
			first, _, _ := strings.Cut(strings.TrimSpace(block.Text), " ")
			if _, fragment := fragments[first]; fragment || block.Language != "" {
				continue
			}
			joined := regexp.MustCompile(`\\\n\s*`).ReplaceAllString(block.Text, "")
			for line := range strings.Lines(joined) {
				if line = strings.TrimSpace(line); line != "" {
					runDocumented(t, block, line)
				}
			}
		}
	}
}

func runDocumented(t *testing.T, block caddytest.CodeBlock, line string) {
	for _, c := range commands {
		if match := regexp.MustCompile(c.pattern).FindStringSubmatch(line); match != nil {
			t.Run(line, func(t *testing.T) { c.check(t, filepath.Dir(block.File), match) })
			return
		}
	}
	t.Errorf("%s: unknown command %s", block, line)
}

// serveDemo starts the demo and asks it for a list.
func serveDemo(t *testing.T, _ string, _ []string) {
	addr := fixture.FreeAddr(t)
	caddytest.StartProcess(t, nil, "mcp-cache", "serve", "--from", addr)
	c := fixture.NewModern(t, "http://"+addr+"/mcp", "")
	fixture.Await(t, "a hit", func() bool {
		a, err := c.TryList(t.Context(), scripted.ToolsList)
		return err == nil && a.Status == http.StatusOK && a.CacheStatus().Hit
	})
}

// serveUpstream starts the command in front of a server of the test's.
func serveUpstream(t *testing.T, _ string, match []string) {
	to, whole := strings.CutPrefix(match[1], "http://")
	if !strings.HasPrefix(to, "127.0.0.1:") || whole && !strings.HasSuffix(to, "/mcp") {
		t.Errorf("%s is not the URL of an MCP server on this machine", match[1])
	}
	w := caddytest.NewUpstream(t)
	w.Host.Start()
	if to = w.Host.URL; !whole {
		to = strings.TrimSuffix(strings.TrimPrefix(to, "http://"), "/mcp")
	}
	addr := fixture.FreeAddr(t)
	caddytest.StartProcess(t, nil, "mcp-cache", "serve", "--from", addr, "--to", to)
	c := fixture.NewModern(t, "http://"+addr+"/mcp", "")
	fixture.Await(t, "a hit", func() bool {
		a, err := c.TryList(t.Context(), scripted.ToolsList)
		return err == nil && caddytest.IsHit(a, scripted.ToolsList, "v1")
	})
}

// checkUpstream runs the command on a server of the test's.
func checkUpstream(t *testing.T, _ string, match []string) {
	if !strings.HasPrefix(match[1], "http://127.0.0.1:") || !strings.HasSuffix(match[1], "/mcp") {
		t.Errorf("%s is not the URL of an MCP server on this machine", match[1])
	}
	w := caddytest.NewUpstream(t)
	w.Host.Start()
	report, _ := caddytest.Check(t, 0, w.Host.URL)
	if caddyfile := caddytest.Suggested(t, report); !strings.Contains(caddyfile, "mcp_cache "+w.Host.URL) {
		t.Errorf("check suggests\n%s", caddyfile)
	}
}

// knowsFlags asks a command with its arguments and flags for its help.
func knowsFlags(t *testing.T, _ string, match []string) {
	stdout, stderr, code := caddytest.Run(t, append(strings.Fields(match[1]), "--help")...)
	if code != 0 {
		t.Errorf("%s gave %d: %s%s", match[1], code, stdout, stderr)
	}
}

// adaptFile adapts the file that a Caddy is to be run with. TestExamples starts
// it.
func adaptFile(t *testing.T, folder string, match []string) {
	folder, err := filepath.Abs(folder)
	if err != nil {
		t.Fatal(err)
	}
	stdout, stderr, code := caddytest.RunIn(t, folder, "adapt", "--config", match[1], "--adapter", "caddyfile")
	if code != 0 || !json.Valid([]byte(stdout)) {
		t.Errorf("adapting gave %d: %s", code, stderr)
	}
}

func hasMain(t *testing.T, folder string, match []string) {
	hasFile(t, filepath.Join(folder, match[1], "main.go"))
}

// hasPackage checks what can be of a build with xcaddy, which needs a network:
// .ci/run xcaddy does it.
func hasPackage(t *testing.T, _ string, match []string) {
	hasFile(t, "../../mcpcache.go")
	if match[2] != "" {
		files, err := filepath.Glob(filepath.Join("..", "..", match[2], "*.go"))
		if err != nil || len(files) == 0 {
			t.Errorf("there is no package %s: %v", match[2], err)
		}
	}
}

func hasFile(t *testing.T, name string) {
	t.Helper()
	if _, err := os.Stat(name); err != nil {
		t.Error(err)
	}
}

var inlineCommand = regexp.MustCompile("`caddy (mcp-cache [^`]+)`")

// TestInlineCommands asks each command that a sentence names for its help.
func TestInlineCommands(t *testing.T) {
	seen := 0
	for _, file := range documents(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range inlineCommand.FindAllStringSubmatch(string(text), -1) {
			seen++
			args := strings.Fields(match[1])
			stdout, stderr, code := caddytest.Run(t, append(args, "--help")...)
			if code != 0 || !strings.Contains(stdout, "caddy mcp-cache "+args[1]) {
				t.Errorf("%s: %s gave %d: %s%s", file, match[1], code, stdout, stderr)
			}
		}
	}
	if seen == 0 {
		t.Error("no command found")
	}
}

// TestDocumentedStatuses holds the page's words for Cache-Status against the
// ones that come back.
func TestDocumentedStatuses(t *testing.T) {
	text := caddytest.ReadPage(t, "../../mcpcache/README.md")
	w := caddytest.NewWorld(t)
	c := w.Client("2026-07-28")
	check := func(a *fixture.Answer) {
		t.Helper()
		s := a.CacheStatus()
		documented := "| `mcp_cache; hit; ttl=297`"
		switch {
		case s.Forward == "bypass":
			documented = "`" + s.Detail + "`"
		case s.Forward != "":
			documented = "| `" + s.Raw + "` |"
		}
		if !strings.Contains(text, documented) {
			t.Errorf("the page does not know %q", s.Raw)
		}
	}
	check(c.List(scripted.ToolsList))
	check(c.Settle(scripted.ToolsList))
	check(c.Call("tools/call", c.Params(`"name":"item-0000"`)))
	for _, body := range []string{"[]", "x", `{"jsonrpc":"2.0","id":1,"id":1,"method":"tools/list"}`, strings.Repeat(" ", 70_000)} {
		a, err := c.Try(t.Context(), http.MethodPost, body, nil)
		if err != nil {
			t.Fatal(err)
		}
		check(a)
	}
	for name, value := range map[string]string{"Accept": "*/*", "Content-Type": "text/plain", "Mcp-Protocol-Version": "2025-11-25"} {
		a, err := c.Try(t.Context(), http.MethodPost, fixture.Message("1", scripted.ToolsList, c.Params("")), http.Header{name: {value}})
		if err != nil {
			t.Fatal(err)
		}
		check(a)
	}
	a, err := c.TryBody(t.Context(), io.MultiReader(strings.NewReader(fixture.Message("1", scripted.ToolsList, c.Params(`"x":1`)))), http.Header{"Mcp-Method": {scripted.ToolsList}})
	if err != nil {
		t.Fatal(err)
	}
	check(a)
}
