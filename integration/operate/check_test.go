package operate

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig"

	"github.com/caddy-mcp/mcp-cache/integration/authtest"
	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// TestCheckSuggestsWhatHits puts the Caddyfile that check suggests to use: the
// lists of every server with hints are hits then.
func TestCheckSuggestsWhatHits(t *testing.T) {
	for name, start := range fixture.SDKServers() {
		t.Run(name, func(t *testing.T) {
			server := start(t)
			report, _ := caddytest.Check(t, 0, server.URL)
			caddyfile := caddytest.Suggested(t, report)
			if _, warnings, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(caddyfile), nil); err != nil || len(warnings) > 0 {
				t.Fatalf("%v, %v:\n%s", err, warnings, caddyfile)
			}
			_, site, found := strings.Cut(strings.TrimSuffix(caddyfile, "}\n"), "\tbind 127.0.0.1\n") // as every site of the tests
			if !found {
				t.Errorf("the server is on loopback, and the cache would listen everywhere:\n%s", caddyfile)
			}
			p := caddytest.StartProxy(t, site)
			for _, revision := range server.Revisions {
				c := fixture.New(t, p.URL, revision, "")
				c.Settle(scripted.ToolsList)
				if a := c.List(scripted.ToolsList); !a.CacheStatus().Hit {
					t.Errorf("the Caddyfile that check suggests gives no hit for tools at %s: %s\n%s", revision, a, report)
				}
			}
		})
	}
}

// TestCheckComparesCallers compares two callers by two headers of one name, and
// says what their tokens are nowhere.
func TestCheckComparesCallers(t *testing.T) {
	s := scripted.New()
	s.SetDoor(func(r *http.Request) int {
		return map[bool]int{true: http.StatusUnauthorized}[r.Header.Get("Authorization") == ""]
	})
	s.SetHints(scripted.PrivateHour)
	s.SetPrivateList("Bearer token-of-ada", scripted.ToolsList, scripted.Items(scripted.ToolsList, "v1", 2))
	s.SetPrivateList("Bearer token-of-bob", scripted.ToolsList, scripted.Items(scripted.ToolsList, "v1", 3))
	host := fixture.NewHost(t, s)
	args := []string{host.URL, "-H", "Authorization: Bearer token-of-ada", "--header", "Authorization: Bearer token-of-bob"}
	text, _ := caddytest.Check(t, 0, args...)
	if words := strings.Join(strings.Fields(text), " "); !strings.Contains(words, "The two callers are given different lists. tools: 3 items instead of 2; more: item-0002.") ||
		!strings.Contains(words, "guard bearer {env.MCP_TOKEN}") {
		t.Errorf("check says\n%s", text)
	}
	out, _ := caddytest.Check(t, 0, append(args, "--json", "--era", "modern", "--timeout", "5s")...)
	var report struct {
		Usable      bool
		Connections int
		Eras        []struct {
			Era   string
			Lists []struct {
				Kind   string
				Caller struct{ Same bool } `json:"other_caller"`
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil || !report.Usable || report.Connections == 0 || len(report.Eras) != 1 || report.Eras[0].Era != "modern" {
		t.Fatalf("%v: %s", err, out)
	}
	for _, list := range report.Eras[0].Lists {
		if list.Caller.Same != (list.Kind != "tools") {
			t.Errorf("the lists compare as %+v", report.Eras[0].Lists)
		}
	}
	_, complaint := caddytest.Check(t, 1, host.URL)
	caddytest.WantOneLine(t, complaint, "asks for credentials (401)")
	for _, said := range []string{text, out, complaint} {
		if strings.Contains(said, "token-of") {
			t.Errorf("it repeats a token: %s", said)
		}
	}
}

// TestCheckOfWhatCannotBeUsed ends with exit status 1 and one line.
func TestCheckOfWhatCannotBeUsed(t *testing.T) {
	resource := authtest.New(t).Protect(scripted.New())
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<!DOCTYPE html><title>hello</title>"))
	})
	url := fixture.NewHost(t, scripted.New()).URL
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"nothing":         {[]string{fixture.FreeAddr(t)}, "nothing listens at "},
		"a web page":      {[]string{fixture.NewHost(t, page).URL}, "it answers with a web page"},
		"OAuth":           {[]string{fixture.NewHost(t, resource).URL}, `asks for credentials (401): give a token with --header "Authorization: Bearer …"`},
		"a query":         {[]string{url + "?key=s3cret"}, "has a query"},
		"no header":       {[]string{url, "--header", "s3cret"}, "--header: header 1 is not of the form"},
		"no era":          {[]string{url, "--era", "stone"}, `--era: "stone" is not one of legacy, modern`},
		"no time":         {[]string{url, "--timeout", "0s"}, "--timeout: 0s is no time to wait"},
		"no such flag":    {[]string{url, "--nothing"}, "unknown flag: --nothing"},
		"no URL":          {nil, "name the MCP server by its URL"},
		"several of them": {[]string{url, url}, "there is an argument too many: name the MCP server by its URL"},
	} {
		t.Run(name, func(t *testing.T) {
			out, complaint := caddytest.Check(t, 1, c.args...)
			caddytest.WantOneLine(t, complaint, c.says)
			if out != "" || strings.Contains(complaint, "s3cret") {
				t.Errorf("it wrote %s%s", out, complaint)
			}
		})
	}
	out, complaint := caddytest.Check(t, 1, "--json", fixture.FreeAddr(t))
	var report struct {
		Usable  bool
		Trouble struct{ Code, Text string }
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil || report.Usable || report.Trouble.Code != "refused" {
		t.Errorf("%v: %s", err, out)
	}
	caddytest.WantOneLine(t, complaint, report.Trouble.Text)
}
