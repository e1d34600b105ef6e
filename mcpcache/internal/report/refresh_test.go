package report_test

import (
	"reflect"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/report"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/report/reporttest"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// refresh returns what a refresh of those kinds brings.
func refresh(t *testing.T, source report.Source, kinds ...revision.Kind) []report.Refreshed {
	t.Helper()
	results, err := report.Refresh(t.Context(), source, kinds)
	if err != nil {
		t.Error(err)
	}
	return results
}

func TestRefreshSaysWhatChanged(t *testing.T) {
	hydrated(t, func(t *testing.T, source *reporttest.Source) {
		source.Server.Set("tools/list", "b", "c")
		results := refresh(t, source, revision.Kinds()...)
		want := []report.Refreshed{
			{Kind: "tools", Revision: "2026-07-28", Items: 2, Added: []string{"c"}, Removed: []string{"a"}, Changed: []string{}},
			{Kind: "resources", Revision: "2026-07-28", Items: 1, Added: []string{}, Removed: []string{}, Changed: []string{}},
			{Kind: "discover", Revision: "2026-07-28", Added: []string{}, Removed: []string{}, Changed: []string{}},
		}
		if !reflect.DeepEqual(results, want) {
			t.Errorf("refreshing gave %+v", results)
		}
		source.Disconnect()
		results = refresh(t, source, revision.Tools)
		if len(results) != 1 || results[0].Kind != "tools" || results[0].Error == "" {
			t.Errorf("refreshing without an upstream gave %+v", results)
		}
		_, err := report.Refresh(t.Context(), source, []revision.Kind{revision.Prompts})
		if reasonOf(t, err) != report.Unavailable {
			t.Errorf("refreshing what is not offered gave %v", err)
		}
	})
}

// TestRefreshesAreShared asks for two refreshes at once: the upstream is asked
// once.
func TestRefreshesAreShared(t *testing.T) {
	hydrated(t, func(t *testing.T, source *reporttest.Source) {
		before := source.Server.Count("tools/list")
		hold := make(chan struct{})
		source.Server.Hold(hold)
		source.Server.Set("tools/list", "a", "b", "c")
		results := make(chan []report.Refreshed, 2)
		for range 2 {
			go func() { results <- refresh(t, source, revision.Tools) }()
		}
		synctest.Wait()
		close(hold)
		for range 2 {
			if r := <-results; len(r) != 1 || !slices.Equal(r[0].Added, []string{"c"}) || r[0].Error != "" {
				t.Errorf("refreshing gave %+v", r)
			}
		}
		if n := source.Server.Count("tools/list") - before; n != 1 {
			t.Errorf("two refreshes cost %d requests", n)
		}
	})
}
