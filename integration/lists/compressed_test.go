package lists

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// TestListsAreSentCompressed asks for lists in every content coding, as JSON and
// as a stream, with and without an encode handler in front: once the lists have
// been compressed they are sent with their length, and are the same lists.
func TestListsAreSentCompressed(t *testing.T) {
	for name, before := range map[string]string{"alone": "", "behind encode": "encode zstd gzip\n"} {
		t.Run(name, func(t *testing.T) {
			w := caddytest.NewUpstream(t)
			for _, method := range scripted.ListMethods() {
				w.SetList(method, scripted.Items(method, scripted.LongMark, 50))
			}
			w.Host.Start()
			w.Proxy = caddytest.StartProxy(t, before+"route {\n"+caddytest.Directive(w.Host.URL)+"\n}")
			caddytest.EachEra(t, func(t *testing.T, revision string) {
				w := w.On(t)
				c := w.Client(revision)
				for _, method := range scripted.ListMethods() {
					want := c.Settle(method).Items(scripted.ItemsKey(method))
					for _, accept := range []string{"application/json, text/event-stream", "application/json;q=0.5, text/event-stream"} {
						for _, coding := range []string{"gzip", "zstd"} {
							c.Header = http.Header{"Accept": {accept}, "Accept-Encoding": {coding}}
							a := c.AwaitList(method, coding+" with a length", func(a *fixture.Answer) bool {
								return a.Header.Get("Content-Encoding") == coding && a.Header.Get("Content-Length") != ""
							})
							if vary := a.Header["Vary"]; !slices.Equal(vary, []string{"Accept-Encoding"}) {
								t.Errorf("%s varies with %q", method, vary)
							}
							plain := fixture.Decoded(t, a)
							if got := plain.Items(scripted.ItemsKey(method)); !plain.CacheStatus().Hit || !slices.Equal(got, want) {
								t.Errorf("%s in %s: %s", method, coding, plain)
							}
							if len(a.Body) > len(plain.Body)/4 {
								t.Errorf("%s in %s: %d bytes of %d", method, coding, len(a.Body), len(plain.Body))
							}
						}
					}
					c.Header = nil
				}
			})
		})
	}
}

// TestPrecompressOff sends lists as they are, if the operator wants
// that.
func TestPrecompressOff(t *testing.T) {
	w := caddytest.NewUpstream(t)
	w.SetList(scripted.ToolsList, scripted.Items(scripted.ToolsList, scripted.LongMark, 50))
	w.Start("precompress off")
	c := w.Client(scripted.Modern)
	c.Header = http.Header{"Accept-Encoding": {"gzip, zstd"}}
	if a := c.Settle(scripted.ToolsList); a.Header["Content-Encoding"] != nil || a.Header["Vary"] != nil {
		t.Errorf("header is %v", a.Header)
	}
}

// TestOtherClientsDecode has programs that others wrote fetch a list, those
// that are installed: each must read what the identity answer says.
func TestOtherClientsDecode(t *testing.T) {
	const node = `
fetch(process.argv[1], {method: "POST", body: process.argv[2], headers: JSON.parse(process.argv[3])})
	.then(async a => { console.log(a.headers.get("content-encoding")); process.stdout.write(await a.text()) })`
	const python = `
import gzip, json, sys, urllib.request
request = urllib.request.Request(sys.argv[1], sys.argv[2].encode(), dict(json.loads(sys.argv[3]), **{"Accept-Encoding": "gzip"}))
with urllib.request.urlopen(request) as a:
	print(a.headers["Content-Encoding"], flush=True)
	sys.stdout.buffer.write(gzip.decompress(a.read()))`
	const headers = `{"Content-Type":"application/json","Accept":"application/json, text/event-stream",` +
		`"Mcp-Protocol-Version":"2026-07-28","Mcp-Method":"tools/list"}`
	w := caddytest.NewUpstream(t)
	w.SetList(scripted.ToolsList, scripted.Items(scripted.ToolsList, scripted.LongMark, 400))
	w.Start()
	c := w.Client(scripted.Modern)
	want := c.Settle(scripted.ToolsList).Items("tools")
	c.Header = http.Header{"Accept-Encoding": {"gzip"}}
	c.AwaitList(scripted.ToolsList, "gzip", func(a *fixture.Answer) bool { return a.Header.Get("Content-Encoding") == "gzip" })
	body := fixture.Message("1", scripted.ToolsList, c.Params(""))
	curl := func(coding string) []string {
		return []string{"curl", "-s", "--compressed", "-H", "Accept-Encoding: " + coding, "-H", "Content-Type: application/json",
			"-H", "Accept: application/json, text/event-stream", "-H", "Mcp-Protocol-Version: 2026-07-28", "-H", "Mcp-Method: tools/list",
			"-d", body, "-w", "%{stderr}%header{content-encoding}", w.Proxy.URL}
	}
	for name, command := range map[string][]string{
		"curl gzip": curl("gzip"), "curl zstd": curl("zstd"),
		"node":   {"node", "-e", node, w.Proxy.URL, body, headers},
		"python": {"python3", "-c", python, w.Proxy.URL, body, headers},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := exec.LookPath(command[0]); err != nil {
				t.Skipf("%s is not installed", command[0])
			}
			run := exec.CommandContext(t.Context(), command[0], command[1:]...)
			var said bytes.Buffer
			run.Stderr = &said
			got, err := run.Output()
			if err != nil {
				t.Fatalf("%v: %s", err, said.Bytes())
			}
			if command[0] != "curl" {
				coding, rest, _ := bytes.Cut(got, []byte("\n"))
				said.Write(coding)
				got = rest
			}
			if coding := strings.TrimSpace(said.String()); coding != "gzip" && coding != "zstd" {
				t.Errorf("content coding was %q", coding)
			}
			a := &fixture.Answer{Status: http.StatusOK, Body: got}
			if items := a.Items("tools"); !slices.Equal(items, want) {
				t.Errorf("read %d items, want %d: %.200s", len(items), len(want), got)
			}
		})
	}
}

// TestBrowserDecodes has a browser fetch a list, if one is installed.
func TestBrowserDecodes(t *testing.T) {
	if _, err := exec.LookPath("chromium"); err != nil {
		t.Skip("chromium is not installed")
	}
	w := caddytest.NewUpstream(t)
	w.SetList(scripted.ToolsList, scripted.Items(scripted.ToolsList, scripted.LongMark, 400))
	w.Host.Start()
	pages := t.TempDir()
	w.Proxy = caddytest.StartProxy(t, "handle /mcp {\n"+caddytest.Directive(w.Host.URL)+"\n}\nhandle {\n\troot * "+pages+"\n\tfile_server\n}")
	c := w.Client(scripted.Modern)
	want := c.Settle(scripted.ToolsList).Items("tools")
	c.Header = http.Header{"Accept-Encoding": {"gzip"}}
	c.AwaitList(scripted.ToolsList, "gzip", func(a *fixture.Answer) bool { return a.Header.Get("Content-Encoding") == "gzip" })
	page := fmt.Sprintf(`<body><script>
fetch("/mcp", {method: "POST", body: %q, headers: {"Content-Type": "application/json",
	"Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": %q, "Mcp-Method": "tools/list"}})
	.then(async a => document.body.innerText = [a.headers.get("content-encoding"), btoa(await a.text()), ""].join(" "))
	</script></body>`, fixture.Message("1", scripted.ToolsList, c.Params("")), scripted.Modern)
	if err := os.WriteFile(filepath.Join(pages, "index.html"), []byte(page), 0o600); err != nil {
		t.Fatal(err)
	}
	shown, err := exec.CommandContext(t.Context(), "chromium", "--headless", "--no-sandbox", "--disable-gpu",
		"--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
		"--user-data-dir="+t.TempDir(), "--virtual-time-budget=10000", "--dump-dom", "http://"+w.Proxy.Addr+"/").Output()
	if err != nil {
		t.Fatalf("running the browser: %v", err)
	}
	found := regexp.MustCompile(`(gzip|zstd) ([A-Za-z0-9+/=]+)`).FindSubmatch(shown)
	if found == nil {
		t.Fatalf("the page shows %.300s", shown)
	}
	body, err := base64.StdEncoding.DecodeString(string(found[2]))
	if err != nil {
		t.Fatal(err)
	}
	a := &fixture.Answer{Status: http.StatusOK, Body: body}
	if items := a.Items("tools"); !slices.Equal(items, want) {
		t.Errorf("read %d items, want %d", len(items), len(want))
	}
}
