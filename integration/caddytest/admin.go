package caddytest

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"os"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/caddy-mcp/mcp-cache/integration/fixture"
)

// Status is what operators' scripts read of a handler's status.
type Status struct {
	Name, Upstream string
	Ready          bool
	Feeds          []struct {
		Era, Revision, State, Since string
		Listening                   bool
		LastFailure                 *struct{ Stage, Message, At string } `json:"last_failure"`
	}
	Kinds []struct {
		Kind, Revision, Digest string
		Items, Bytes           int
		Hits                   float64
	}
}

// States returns the feeds' states by era.
func (s *Status) States() map[string]string {
	states := make(map[string]string)
	for _, f := range s.Feeds {
		states[f.Era] = f.State
	}
	return states
}

// Refreshed is what a refresh says of one list.
type Refreshed struct {
	Kind, Revision          string
	Items                   int
	Added, Removed, Changed []string
	Error                   string
}

// AskAdmin sends a request to Caddy's admin endpoint. It may be called from any goroutine.
func AskAdmin(t testing.TB, method, path string, header http.Header) (status int, body []byte) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "http://"+Running.Admin+path, nil)
	if err != nil {
		t.Errorf("asking the admin endpoint: %v", err)
		return 0, nil
	}
	maps.Copy(r.Header, header)
	r.Host = header.Get("Host")
	res, err := Running.HTTP.Do(r)
	if err != nil {
		t.Errorf("asking the admin endpoint: %v", err)
		return 0, nil
	}
	defer res.Body.Close()
	if body, err = io.ReadAll(res.Body); err != nil {
		t.Errorf("reading the admin endpoint's answer: %v", err)
	}
	return res.StatusCode, body
}

// ReadAdmin gets a path of the admin endpoint that has to exist.
func ReadAdmin(t testing.TB, path string, into any) {
	t.Helper()
	status, body := AskAdmin(t, http.MethodGet, path, nil)
	if status != http.StatusOK {
		t.Fatalf("%s gave %d: %s", path, status, body)
	}
	if err := json.Unmarshal(body, into); err != nil {
		t.Fatalf("%s gave %s: %v", path, body, err)
	}
}

// RefreshNow has the handler refresh those kinds, "" for all.
func RefreshNow(t testing.TB, kind string) []Refreshed {
	t.Helper()
	path := "/mcp_cache/mcp_cache/refresh"
	if kind != "" {
		path += "?kind=" + kind
	}
	status, body := AskAdmin(t, http.MethodPost, path, nil)
	var results []Refreshed
	if err := json.Unmarshal(body, &results); status != http.StatusOK || err != nil {
		t.Fatalf("refreshing gave %d: %s", status, body)
	}
	return results
}

// WantSchema fails unless a status is as the schema in the repository says.
func WantSchema(t testing.TB, statuses []byte) {
	t.Helper()
	raw, err := os.ReadFile("../../mcpcache/internal/report/testdata/status.schema.json")
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
	var value []any
	if err := json.Unmarshal(statuses, &value); err != nil {
		t.Fatalf("status is %s: %v", statuses, err)
	}
	if err := resolved.Validate(value); err != nil {
		t.Errorf("%v:\n%s", err, statuses)
	}
}

// AwaitReady waits until a handler is ready and its feeds have settled.
func AwaitReady(t testing.TB, name string) {
	t.Helper()
	fixture.Await(t, "the handler to be ready", func() bool {
		status, body := AskAdmin(t, http.MethodGet, "/mcp_cache/"+name, nil)
		var s Status
		if status != http.StatusOK || json.Unmarshal(body, &s) != nil {
			return false
		}
		for _, state := range s.States() {
			if state == "connecting" || state == "hydrating" {
				return false
			}
		}
		return len(s.Feeds) > 0
	})
}

// Warnings returns those in the status of a cache, which need not be ready.
func Warnings(t testing.TB, name string) []string {
	t.Helper()
	_, body := AskAdmin(t, http.MethodGet, "/mcp_cache/"+name, nil)
	var status struct{ Warnings []string }
	if err := json.Unmarshal(body, &status); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return status.Warnings
}
