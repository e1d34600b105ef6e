package telemetry

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

func TestRefreshesAreCounted(t *testing.T) {
	goLive(t, "observed")
	registry := registered(t)
	synctest.Test(t, func(t *testing.T) {
		o := observe(t, func(caddy.Event) {})
		o.Refreshed(revision.V20251125, revision.Tools, time.Second, false, nil)
		o.Refreshed(revision.V20251125, revision.Tools, time.Second, true, nil)
		o.Refreshed(revision.V20260728, revision.Tools, time.Second, true, nil)
		o.Refreshed(revision.V20260728, revision.Prompts, time.Second, false, errors.New("no"))
		o.Noticed(revision.SetOf(revision.Resources, revision.ResourceTemplates))
	})
	got := series(t, registry)
	for name, want := range map[string]float64{
		`refreshes_total{handler="observed",kind="tools",result="changed"}`:         1,
		`refreshes_total{handler="observed",kind="tools",result="unchanged"}`:       2,
		`refreshes_total{handler="observed",kind="prompts",result="failed"}`:        1,
		`refresh_duration_seconds{handler="observed",kind="tools"}`:                 3,
		`changes_total{handler="observed",kind="resources",source="feed"}`:          1,
		`changes_total{handler="observed",kind="resource_templates",source="feed"}`: 1,
	} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
}
