package report_test

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/keeper"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/report"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/report/reporttest"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores"
)

func TestFleetIsDescribed(t *testing.T) {
	since := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	there, away := stores.State{Since: since}, stores.State{Since: since, Failure: errors.New("connection refused")}
	full := errors.New("out of memory")
	for name, c := range map[string]struct {
		is   *keeper.Fleet
		want *report.Fleet
	}{
		"not shared":      {nil, nil},
		"there":           {&keeper.Fleet{State: there}, &report.Fleet{State: "together", Since: since}},
		"away":            {&keeper.Fleet{State: away, Saving: full}, &report.Fleet{State: "away", Since: since, Failure: "connection refused"}},
		"full":            {&keeper.Fleet{State: there, Saving: full}, &report.Fleet{State: "together", Since: since, Failure: "out of memory"}},
		"with other keys": {&keeper.Fleet{State: there, Ignored: 3}, &report.Fleet{State: "together", Since: since, Ignored: 3}},
	} {
		source := reporttest.New(t, "fleet")
		source.Together = c.is
		if got := report.Describe(source, since).Fleet; !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
