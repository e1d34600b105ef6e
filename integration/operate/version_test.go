package operate

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// versions are what `caddy mcp-cache version` prints.
type versions struct {
	Own      string `json:"mcp_cache"`
	Caddy    string `json:"caddy"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func versionOf(t *testing.T) versions {
	t.Helper()
	printed, _, code := caddytest.Run(t, "mcp-cache", "version", "--json")
	var v versions
	if err := json.Unmarshal([]byte(printed), &v); err != nil || code != 0 || v.Own == "" {
		t.Fatalf("the command printed %q, exit status %d, %v", printed, code, err)
	}
	return v
}

// TestVersionCommand has the command print what the program is built with.
func TestVersionCommand(t *testing.T) {
	v := versionOf(t)
	if v.Caddy == "" || !strings.HasPrefix(v.Go, "go1.") || !strings.Contains(v.Platform, "/") { // a test's binary does not say which Caddy it has
		t.Errorf("the versions are %+v", v)
	}
	printed, _, _ := caddytest.Run(t, "mcp-cache", "version")
	if want := "mcp_cache " + v.Own + "\nCaddy " + v.Caddy + "\n" + v.Go + " " + v.Platform + "\n"; printed != want {
		t.Errorf("it printed %q instead of %q", printed, want)
	}
}

// TestVersionIsSaid has servers be told by the feeds which version they are asked by, and clients of several servers
// which version answers them.
func TestVersionIsSaid(t *testing.T) {
	v := versionOf(t).Own
	one, first := caddytest.NewMember(t, "one")
	two, second := caddytest.NewMember(t, "two")
	one.SetRevisions(scripted.LatestLegacy)
	two.SetRevisions(scripted.Modern)
	alone, third := caddytest.NewMember(t, "alone")
	p := caddytest.StartProxy(t, "handle_path /one/* {\nmcp_cache "+third.URL+"\n}\n"+"handle_path /several/* {\n"+caddytest.ToolkitOf([]caddytest.Member{first, second})+"\n}")
	for name, w := range map[string]*caddytest.World{"one of several, legacy": one, "one of several, modern": two, "alone": alone} {
		fixture.Await(t, "the feed of "+name, func() bool { return w.Host.CountFeed(scripted.ToolsList) > 0 })
		for _, r := range w.Host.Requests(func(r *fixture.Request) bool { return r.Feed }) {
			if agent := r.Header.Get("User-Agent"); agent != "mcp_cache/"+v {
				t.Errorf("%s: %s came from %q", name, r.Method, agent)
			}
			if said := clientInfoOf(t, r); r.Method == "initialize" && said == "" || said != "" && said != "mcp_cache "+v {
				t.Errorf("%s: %s is of the client %q", name, r.Method, said)
			}
		}
	}
	several := strings.TrimSuffix(p.URL, "/mcp") + "/several/mcp"
	c := fixture.NewModern(t, several, "")
	if said := c.Call("server/discover", c.Params("")).Part("result", "_meta", "io.modelcontextprotocol/serverInfo", "version"); string(said) != `"`+v+`"` {
		t.Errorf("server/discover has the version %s", said)
	}
	c.Revision = scripted.LatestLegacy
	a := c.Call("initialize", fixture.InitializeParams("2025-06-18"))
	if said := a.Part("result", "serverInfo", "version"); a.Status != http.StatusOK || string(said) != `"`+v+`"` {
		t.Errorf("initialize has the version %s: %s", said, a)
	}
}

// clientInfoOf returns what a request says that its client is, "" if it does not.
func clientInfoOf(t *testing.T, r fixture.Request) string {
	t.Helper()
	type implementation struct{ Name, Version string }
	var message struct {
		Params struct {
			ClientInfo implementation
			Meta       struct {
				ClientInfo implementation `json:"io.modelcontextprotocol/clientInfo"`
			} `json:"_meta"`
		}
	}
	if len(r.Body) > 0 {
		if err := json.Unmarshal(r.Body, &message); err != nil {
			t.Fatal(err)
		}
	}
	for _, said := range []implementation{message.Params.ClientInfo, message.Params.Meta.ClientInfo} {
		if said.Name != "" {
			return said.Name + " " + said.Version
		}
	}
	return ""
}
