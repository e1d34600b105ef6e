package probe

import (
	"encoding/json"
	"flag"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

var update = flag.Bool("update", false, "write what reports look like")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	publicHour  = `"ttlMs":3600000,"cacheScope":"public"`
	defaultHint = `"ttlMs":0,"cacheScope":"private"` // what SDKs send when an author has set nothing

	toolsList = "tools/list"
)

// serve serves a handler until the test ends, and returns its MCP URL.
func serve(t *testing.T, handler http.Handler) string {
	t.Helper()
	return listenTo(t, handler, (*httptest.Server).Start)
}

func listenTo(t *testing.T, handler http.Handler, start func(*httptest.Server)) string {
	t.Helper()
	s := httptest.NewUnstartedServer(handler)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	start(s)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL + "/mcp"
}

// newScripted returns a server with three items in each list.
func newScripted() *scripted.Server {
	s := scripted.New()
	for _, method := range scripted.ListMethods() {
		s.SetList(method, scripted.Items(method, "v1", 3))
	}
	return s
}

// options are those of the command, with callers of those headers.
func options(t *testing.T, url string, headers ...string) Options {
	t.Helper()
	callers, err := Callers(headers)
	if err != nil {
		t.Fatal(err)
	}
	return Options{
		URL: url, Callers: callers, Timeout: 10 * time.Second, Total: time.Minute,
		MaxList: 1 << 20, MaxPages: 20,
	}
}

func run(t *testing.T, o Options) *Report {
	t.Helper()
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// wantGolden compares a report's text with the one in testdata, whatever the
// port, however long the server took, and whether it had ended an event stream
// when its answer was there, so that the connection could be used again.
func wantGolden(t *testing.T, r *Report, name string) {
	t.Helper()
	r.Connections = 3
	for _, e := range r.Eras {
		for _, l := range e.Lists {
			l.FirstMS, l.AgainMS = 12, 3
		}
	}
	u, err := url.Parse(r.URL)
	if err != nil {
		t.Fatal(err)
	}
	got := strings.ReplaceAll(r.Text(), u.Host, "server")
	file := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for line := range strings.Lines(got) {
		if n := len([]rune(strings.TrimRight(line, "\n"))); n > 100 {
			t.Errorf("a line has %d characters: %s", n, line)
		}
	}
}

// asJSON is the view for programs.
func asJSON(t *testing.T, r *Report) string {
	t.Helper()
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// list returns the first one of a kind.
func list(t *testing.T, r *Report, kind string) *List {
	t.Helper()
	for _, e := range r.Eras {
		for _, l := range e.Lists {
			if l.Kind == kind {
				return l
			}
		}
	}
	t.Fatalf("there is no list of %s", kind)
	return nil
}
