package promises

import (
	"context"
	"net/http"
	"sync"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores/storetest"
)

func init() { caddy.RegisterModule(trialStore{}) }

// trialStore is the store "trial". All of them keep what they are given in one [storetest.Trial], which a
// test has made hang.
type trialStore struct{ *storetest.Trial }

var trial = storetest.NewTrial()

// CaddyModule returns the Caddy module information.
func (trialStore) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: stores.Namespace + ".trial", New: func() caddy.Module { return &trialStore{trial} }}
}

// UnmarshalCaddyfile implements [caddyfile.Unmarshaler].
func (trialStore) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	return nil
}

// TestListsWaitForWhatIsStored starts Caddy while the server is down and the store slow. A list that is
// asked for before the store has answered is the stored one. A legacy client of several servers goes on with
// its session. In front of one server or program, such a session needs the server.
func TestListsWaitForWhatIsStored(t *testing.T) {
	var places []place
	for _, era := range eras {
		for _, in := range []column{ofOne, ofSeveral, ofPrograms} {
			for _, at := range placesOf(in, era) {
				if at.several || era == "modern" {
					places = append(places, at)
				}
			}
		}
	}
	for _, at := range places {
		t.Run(at.String(), func(t *testing.T) {
			s := newSite(t, at)
			s.common = []string{"store trial", "admit all"}
			s.begin()
			c := s.settled("")[0]
			caddytest.GoIdle(t)
			s.Host.Kill()

			loading, answering := make(chan struct{}), make(chan struct{})
			begun := sync.OnceFunc(func() { close(loading) })
			trial.SetTrouble(func(context.Context, string, string) error {
				begun()
				<-answering
				return nil
			})
			defer trial.SetTrouble(nil)
			s.caddys[0].reload(s.body())
			<-loading
			answer := make(chan *fixture.Answer)
			go func() {
				a, err := c.TryList(t.Context(), scripted.ToolsList)
				if err != nil {
					t.Error(err)
				}
				answer <- a
			}()
			for range 20 { // by then an answer that waits for nothing is there
				caddytest.AskAdmin(t, http.MethodGet, "/mcp_cache/", nil)
			}
			close(answering)
			if a := <-answer; !a.CacheStatus().Hit || !s.isWhole(a, "v1") {
				t.Errorf("the list is %s", a)
			}
		})
	}
}
