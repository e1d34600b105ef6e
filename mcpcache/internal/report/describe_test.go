package report_test

import (
	"encoding/json"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/feed"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/report"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/report/reporttest"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// hydrated runs a test in a bubble with a handler whose modern feed has
// fetched its lists.
func hydrated(t *testing.T, test func(t *testing.T, source *reporttest.Source)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		source := reporttest.New(t, "hydrated")
		reporttest.GoLive(t, source)
		source.Server.Set("tools/list", "a", "b")
		source.Server.Set("resources/list", "file:///x")
		source.Feeds().Start(revision.LatestModern)
		synctest.Wait()
		test(t, source)
	})
}

// TestWarningsOfAnswers tells what is odd about a server's answers.
func TestWarningsOfAnswers(t *testing.T) {
	hydrated(t, func(t *testing.T, source *reporttest.Source) {
		if s := report.Describe(source, time.Now()); s.Warnings != nil {
			t.Errorf("warnings of an ordinary server are %q", s.Warnings)
		}
		source.Remarked = []string{"refused (origin: null, once)"}
		source.Server.Set("tools/list", "a", "b", "a", "b", "c")
		refresh(t, source, revision.Tools)
		want := []string{
			"refused (origin: null, once)",
			"tools has items of one name, and is kept as it is: a, b",
		}
		if s := report.Describe(source, time.Now()); !slices.Equal(s.Warnings, want) {
			t.Errorf("warnings are %q, want %q", s.Warnings, want)
		}
	})
}

func TestDescribe(t *testing.T) {
	hydrated(t, func(t *testing.T, source *reporttest.Source) {
		source.Count[revision.LatestModern][revision.Tools].Add(3)
		source.Count[revision.LatestLegacy][revision.Tools].Add(5)
		time.Sleep(10 * time.Second)
		s := report.Describe(source, time.Now())
		if !s.Ready || s.Name != "hydrated" || s.Upstream != "http://127.0.0.1:1/mcp" || s.Upstreams != nil {
			t.Errorf("status is %+v", s)
		}
		source.Others = []string{"http://127.0.0.1:2/mcp"}
		if s := report.Describe(source, time.Now()); s.Upstream != "http://127.0.0.1:1/mcp" || !slices.Equal(s.Upstreams, []string{"http://127.0.0.1:1/mcp", "http://127.0.0.1:2/mcp"}) {
			t.Errorf("status of replicas is %+v", s)
		}
		if len(s.Feeds) != 1 || s.Feeds[0].State != feed.Ready || s.Feeds[0].Era != "modern" || s.Feeds[0].Failure != nil ||
			s.Feeds[0].Next == nil || !time.Now().Equal(s.Feeds[0].Since.Add(10*time.Second)) {
			t.Errorf("feeds are %+v", s.Feeds)
		}
		var kinds []string
		for _, k := range s.Kinds {
			kinds = append(kinds, k.Kind)
		}
		if !slices.Equal(kinds, []string{"tools", "resources", "discover"}) {
			t.Fatalf("kinds are %q", kinds)
		}
		if k := s.Kinds[0]; k.Items != 2 || k.Hits != 3 || k.Age != 10 || k.TTL != 290 || len(k.Digest) != 64 || k.Bytes == 0 {
			t.Errorf("tools are %+v", k)
		}
	})
}

// TestNotReadyWhileHydrating holds one list back: the handler is not ready
// before all are there.
func TestNotReadyWhileHydrating(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := reporttest.New(t, "hydrating")
		source.Server.Set("tools/list", "a")
		hold := make(chan struct{})
		source.Server.Hold(hold)
		source.Feeds().Start(revision.LatestModern)
		synctest.Wait()
		if s := report.Describe(source, time.Now()); s.Ready || s.Feeds[0].State != feed.Hydrating {
			t.Errorf("while it hydrates, the status is %+v", s)
		}
		close(hold)
		synctest.Wait()
		if s := report.Describe(source, time.Now()); !s.Ready || s.Feeds[0].State != feed.Ready {
			t.Errorf("then the status is %+v", s)
		}
		source.Server.Set("tools/list")
		source.Disconnect()
		refresh(t, source, revision.Tools)
		if s := report.Describe(source, time.Now()); !s.Ready || s.Feeds[0].Failure == nil || s.Feeds[0].Failure.Stage != "tools" {
			t.Errorf("without its upstream, the status is %+v", s)
		}
	})
}

func TestReadyWithRestoredSnapshots(t *testing.T) {
	source := reporttest.New(t, "restored")
	synctest.Test(t, func(t *testing.T) {
		if s := report.Describe(source, time.Now()); s.Ready {
			t.Error("a handler without feeds is ready")
		}
	})
	source.Pin(t, revision.LatestModern, revision.Tools, time.Hour, `{"name":"a"}`)
	source.Disconnect()
	source.Feeds().Start(revision.LatestModern)
	if s := report.Describe(source, time.Now()); !s.Ready {
		t.Errorf("with a snapshot from before the restart, the status is %+v", s)
	}
}

// statusSchema is the schema of what the status command prints.
func statusSchema(t *testing.T) *jsonschema.Resolved {
	t.Helper()
	raw, err := os.ReadFile("testdata/status.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var schema jsonschema.Schema
	if err := json.Unmarshal(raw, &schema); err != nil {
		t.Fatal(err)
	}
	resolved, err := schema.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	return resolved
}

// TestStatusMatchesItsSchema holds the schema and the types together: what the
// handler says is valid, and nothing may be missing or added.
func TestStatusMatchesItsSchema(t *testing.T) {
	schema := statusSchema(t)
	generic := func(statuses ...report.Status) []any {
		raw, err := json.Marshal(statuses)
		if err != nil {
			t.Fatal(err)
		}
		var value []any
		if err := json.Unmarshal(raw, &value); err != nil {
			t.Fatal(err)
		}
		return value
	}
	for _, s := range []feed.State{feed.Connecting, feed.Hydrating, feed.Ready, feed.Degraded, feed.Down, feed.NeedsAuthorization, feed.Unsupported} {
		full := reporttest.Full()
		full.Feeds[0].State = s
		if err := schema.Validate(generic(full)); err != nil {
			t.Errorf("with state %s: %v", s, err)
		}
	}
	for _, s := range []string{report.Together, report.Alone, report.Away} {
		full := reporttest.Full()
		full.Fleet.State = s
		if err := schema.Validate(generic(full)); err != nil {
			t.Errorf("with a fleet that is %s: %v", s, err)
		}
	}
	hydrated(t, func(t *testing.T, source *reporttest.Source) {
		if err := schema.Validate(generic(report.Describe(source, time.Now()))); err != nil {
			t.Error(err)
		}
	})
	optional := []string{
		" fleet", "fleet last_failure", "fleet members", "fleet other_secrets", "fleet leases", " program", "program era", "program start_failure", "program last_exit", "program last_death", "last_exit standard_error", "last_death standard_error", "processes memory_bytes", "processes standard_error",
		" upstreams", " rules", " views", " warnings", "feeds last_failure", "feeds next_refresh", "kinds uncacheable",
		"rules match", "rules unused", "rules failures", "rules failing",
	}
	for _, path := range []string{"", "feeds", "kinds", "last_failure", "rules", "views", "lists", "fleet", "leases", "program", "start_failure", "last_exit", "last_death", "processes"} {
		find := func(value []any) map[string]any {
			object := value[0].(map[string]any)
			switch path {
			case "":
				return object
			case "last_failure":
				return object["feeds"].([]any)[0].(map[string]any)[path].(map[string]any)
			case "program", "fleet":
				return object[path].(map[string]any)
			case "leases":
				return object["fleet"].(map[string]any)[path].([]any)[0].(map[string]any)
			case "start_failure", "last_exit", "last_death":
				return object["program"].(map[string]any)[path].(map[string]any)
			case "processes":
				return object["program"].(map[string]any)[path].([]any)[0].(map[string]any)
			case "lists":
				return object["views"].([]any)[0].(map[string]any)[path].([]any)[0].(map[string]any)
			}
			return object[path].([]any)[0].(map[string]any)
		}
		for member := range find(generic(reporttest.Full())) {
			value := generic(reporttest.Full())
			delete(find(value), member)
			if err := schema.Validate(value); (err == nil) != slices.Contains(optional, path+" "+member) {
				t.Errorf("without %s %s: %v", path, member, err)
			}
			value = generic(reporttest.Full())
			find(value)[member] = map[string]any{"of": "another type"}
			if schema.Validate(value) == nil {
				t.Errorf("%s %s may be anything", path, member)
			}
		}
		value := generic(reporttest.Full())
		find(value)["unheard_of"] = 1
		if schema.Validate(value) == nil {
			t.Errorf("%s may have members that nobody knows", path)
		}
	}
}
