package report_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/report"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/report/reporttest"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

func TestItems(t *testing.T) {
	source := reporttest.New(t, "items")
	if _, err := report.Items(source, revision.Tools, ""); reasonOf(t, err) != report.NotFound {
		t.Errorf("without a snapshot: %v", err)
	}
	if _, err := report.Items(source, revision.Discover, ""); reasonOf(t, err) != report.NotFound {
		t.Errorf("of discover: %v", err)
	}
	odd := `{"name":"odd","title":1,"description":["x"],"n":1.0e2}`
	source.Pin(t, revision.V20251125, revision.Tools, time.Hour, `{"name":"old"}`)
	source.Pin(t, revision.V20260728, revision.Tools, 0, odd, `{"description":"D","name":"b","title":"B"}`)
	items, err := report.Items(source, revision.Tools, "")
	if err != nil || len(items) != 2 || string(items[0].Raw) != odd {
		t.Fatalf("items are %v, %v", items, err)
	}
	for i, want := range []report.Summary{{Name: "odd"}, {Name: "b", Title: "B", Description: "D"}} {
		if got := items[i].Summary(); got != want {
			t.Errorf("item %d is %+v, want %+v", i, got, want)
		}
	}
}

// TestItemsBeforeTheFirstList tells a list that may come from one that is not offered.
func TestItemsBeforeTheFirstList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := reporttest.New(t, "early")
		source.Server.Set("tools/list", "a")
		hold := make(chan struct{})
		defer close(hold)
		source.Server.Hold(hold)
		source.Feeds().Start(revision.LatestLegacy) // which is not offered
		source.Feeds().Start(revision.LatestModern)
		synctest.Wait()
		for kind, want := range map[revision.Kind]string{
			revision.Tools:   "there is no snapshot of tools: " + report.NotFetched,
			revision.Prompts: "there is no snapshot of prompts",
		} {
			if _, err := report.Items(source, kind, ""); reasonOf(t, err) != report.NotFound || err.Error() != want {
				t.Errorf("got %v, want %s", err, want)
			}
		}
	})
}

// TestItemsLike has a pattern and a name choose items.
func TestItemsLike(t *testing.T) {
	source := reporttest.New(t, "like")
	source.Pin(t, revision.V20260728, revision.Tools, 0, `{"name":"get_a"}`, `{"name":"set_a"}`)
	items, err := report.Items(source, revision.Tools, "get_*")
	if err != nil || len(items) != 1 || items[0].Name != "get_a" {
		t.Errorf("items are %v, %v", items, err)
	}
	if items, err := report.Items(source, revision.Tools, "x*"); err != nil || len(items) != 0 {
		t.Errorf("items are %v, %v", items, err)
	}
	if _, err := report.Items(source, revision.Prompts, "["); reasonOf(t, err) != report.Invalid {
		t.Errorf("with half a pattern: %v", err)
	}
	if item, err := report.ItemNamed(source, revision.Tools, "set_a"); err != nil || string(item.Raw) != `{"name":"set_a"}` {
		t.Errorf("the item is %v, %v", item, err)
	}
	if _, err := report.ItemNamed(source, revision.Tools, "*_a"); reasonOf(t, err) != report.NotFound {
		t.Errorf("of a pattern: %v", err)
	}
}

// reasonOf returns what kind of trouble an error is.
func reasonOf(t *testing.T, err error) report.Reason {
	t.Helper()
	e, ok := errors.AsType[*report.Error](err)
	if !ok {
		t.Fatalf("got %v, which is no *report.Error", err)
	}
	return e.Reason
}
