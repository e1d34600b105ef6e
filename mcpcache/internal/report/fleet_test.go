package report_test

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/fleet"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/persist"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/report"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/report/reporttest"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores"
)

func TestFleetIsDescribed(t *testing.T) {
	before := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	since := before.Add(time.Minute)
	there, away := stores.State{Since: before}, stores.State{Since: before, Failure: errors.New("connection refused")}
	full := errors.New("out of memory")
	members := []string{"a", "b"}
	together := fleet.Status{Name: "a", Together: true, Since: since, Members: members}
	alone, never := fleet.Status{Name: "a", Since: since}, fleet.Status{Name: "a"}
	leases := []persist.Lease{{Revision: revision.V20251125, Kind: revision.ResourceTemplates, Holder: "b"}}
	for name, c := range map[string]struct {
		store *persist.Fleet
		is    fleet.Status
		want  *report.Fleet
	}{
		"not shared": {nil, never, nil},
		"together":   {&persist.Fleet{State: there}, together, &report.Fleet{State: "together", Since: since, Members: members}},
		"asking": {&persist.Fleet{State: there, Leases: leases}, together, &report.Fleet{
			State: "together", Since: since, Members: members, Leases: []report.Lease{{Revision: "2025-11-25", Kind: "resource_templates", Holder: "b"}},
		}},
		"alone since then":       {&persist.Fleet{State: there, Trouble: full}, alone, &report.Fleet{State: "alone", Since: since, Failure: "out of memory"}},
		"alone from the start":   {&persist.Fleet{State: there}, never, &report.Fleet{State: "alone", Since: before}},
		"away":                   {&persist.Fleet{State: away, Trouble: full}, never, &report.Fleet{State: "away", Since: before, Failure: "connection refused"}},
		"away, and told of late": {&persist.Fleet{State: away}, alone, &report.Fleet{State: "away", Since: since, Failure: "connection refused"}},
		"away for a moment":      {&persist.Fleet{State: away}, together, &report.Fleet{State: "together", Since: since, Members: members, Failure: "connection refused"}},
		"full":                   {&persist.Fleet{State: there, Trouble: full}, together, &report.Fleet{State: "together", Since: since, Members: members, Failure: "out of memory"}},
		"with other secrets": {
			&persist.Fleet{State: there}, fleet.Status{Name: "a", Together: true, Since: since, Members: members, Strangers: []string{"b"}},
			&report.Fleet{State: "together", Since: since, Members: members, OtherSecrets: []string{"b"}},
		},
		"with other keys": {&persist.Fleet{State: there, Ignored: 3}, together, &report.Fleet{State: "together", Since: since, Members: members, Ignored: 3}},
	} {
		source := reporttest.New(t, "fleet")
		source.Together, source.FleetStatus = c.store, c.is
		if c.want != nil {
			c.want.Name = "a"
		}
		got := report.Describe(source, since)
		if !reflect.DeepEqual(got.Fleet, c.want) {
			t.Errorf("%s: %+v, want %+v", name, got.Fleet, c.want)
		}
		var want []string
		if len(c.is.Strangers) > 0 {
			want = []string{"the Caddys do not have the same secrets: b cannot open the sessions, cursors and stored lists of a; give all the same secret_file, or one storage of Caddy"}
		}
		if !reflect.DeepEqual(got.Warnings, want) {
			t.Errorf("%s: the warnings are %q, want %q", name, got.Warnings, want)
		}
	}
}
