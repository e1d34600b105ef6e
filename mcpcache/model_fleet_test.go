package mcpcache

import (
	"context"
	"encoding/base64"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores/storetest"
)

// These are worlds of two instances that share a store: what a client of one was told, clients of
// the other are given no lists from before. Each has its own door, and its own feed.

func init() {
	caddy.RegisterModule(modelFleet{})
}

// modelFleet is an instance's way to the store that instances share.
type modelFleet struct {
	World string `json:"world"`

	*storetest.Shared `json:"-"`
}

// CaddyModule returns the Caddy module information.
func (modelFleet) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: stores.Namespace + ".model_fleet", New: func() caddy.Module { return new(modelFleet) }}
}

// Provision finds the way of the instance whose configuration this is.
func (s *modelFleet) Provision(caddy.Context) error {
	w, err := worldNamed(s.World)
	if err != nil {
		return err
	}
	s.Shared = w.loading.way
	return nil
}

// modelSecrets returns a file with the secrets that instances have in common.
func modelSecrets(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secrets")
	if err := os.WriteFile(path, []byte(base64.StdEncoding.EncodeToString(make([]byte, 32))+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// refuseNow has the store refuse something now and then: all but a membership.
func (w *world) refuseNow(_ context.Context, operation, key string) error {
	if !slices.Contains([]string{"load", "save", "delete", "lease", "extend", "release", "announce"}, operation) {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.draw(8, operation, key, w.known.next()) == 0 {
		return errModel
	}
	return nil
}

// together reports whether an instance is told what others are told.
func (at *modelInstance) together() bool { return at.server.backend.Fleet.Together() }

// isSettled reports whether an instance has been told what others were for as long as somebody may
// have waited for it.
func (at *modelInstance) isSettled() bool {
	is := at.server.backend.Fleet.Status()
	return is.Together && time.Since(is.Since) > 2*time.Second
}

// together returns the instances of a fleet that are together now.
func (w *world) together() map[*modelInstance]bool {
	are := make(map[*modelInstance]bool)
	for _, at := range w.instances {
		are[at] = w.cfg.fleet && at.together()
	}
	return are
}

// tells records that a notice has been passed to a client. By then, other instances know of the
// change, or that they may have missed some, unless the client has gone away: then nobody waits for
// them. The caller holds the lock.
func (w *world) tells(x *call, n *notice) {
	x.at.truth.hears(n, callerOf(x.session, x.ctx, x.c.rev.String()), x.session, x.c.rev.String(), x.http == http.MethodPost)
	for _, other := range w.instances {
		other.truth.rumours(n.kinds...)
		if other != x.at && !x.cancelled && x.at.together() && (n.known[other] || other.together()) {
			other.truth.hearsElsewhere(n, other.isSettled())
		}
	}
}

// stepCut cuts an instance off from the store, or all, or ends that.
func (w *world) stepCut(r *rand.Rand) {
	one, all := w.anyInstance(r), r.IntN(3) == 0
	cut := !one.cut
	for _, at := range w.instances {
		if all || at == one {
			at.reach(!cut)
		}
	}
}

// reach has an instance reach the store, or not.
func (at *modelInstance) reach(reaches bool) {
	at.w.noteNow("%d reaches the store: %t", at.n, reaches)
	at.w.disturb()
	if at.cut = !reaches; at.cut {
		at.way.SetAway(errModel)
		return
	}
	at.way.SetAway(nil)
}

// stepDelivery has an instance hear what is announced late, twice or not at all.
func (w *world) stepDelivery(r *rand.Rand) {
	at, lost, repeated, late := w.anyInstance(r), r.Float64()/2, r.Float64()/2, r.IntN(4e8)
	w.disturb()
	w.noteNow("%d loses %.2f, hears %.2f twice, up to %v late", at.n, lost, repeated, time.Duration(late))
	at.way.SetDelivery(func(a stores.Announcement) int {
		at.hears(a)
		w.mu.Lock()
		p := rand.New(rand.NewPCG(w.seed, a.Number+uint64(at.n)))
		w.mu.Unlock()
		time.Sleep(time.Duration(p.IntN(late + 1)))
		switch p := p.Float64(); {
		case p < lost:
			return 0
		case p < lost+repeated:
			return 2
		}
		return 1
	})
}

// stepEmptied has the store forget who is a member.
func (w *world) stepEmptied(*rand.Rand) {
	w.noteNow("the store is emptied")
	w.disturb()
	w.shared.Forget()
}

// stepHeal ends the troubles of the store. After that the instances are together, and each knows
// what the other has heard.
func (w *world) stepHeal(r *rand.Rand) {
	for _, at := range w.instances {
		at.reach(true)
		at.way.SetDelivery(at.hearsOnce)
	}
	time.Sleep(10 * time.Second)
	w.settle()
	w.mu.Lock()
	for _, s := range w.servers() {
		s.disturbed = false
		s.meet()
	}
	w.note("the instances are together")
	w.mu.Unlock()
	w.stepList(r)
}

// meet makes sure that the instances are together: each knows what the other has heard.
func (w *world) meet() {
	heard := make(map[view]int)
	for _, at := range w.instances {
		if !at.together() {
			w.fail("instance %d is alone, and nothing is in its way", at.n)
		}
		for v, version := range at.truth.heard {
			heard[v] = max(heard[v], version)
		}
	}
	for _, at := range w.instances {
		at.truth.raise(maps.Clone(heard))
		at.truth.rumours()
	}
	w.stir()
}

// disturb records that the store is in trouble.
func (w *world) disturb() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.servers() {
		s.disturbed = true
		s.stir()
	}
}

// changeAt makes a new version of a list, and announces it on streams of one instance.
func (w *world) changeAt(r *rand.Rand, at *modelInstance, k revision.Kind) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.up.change(k, modelContexts)
	n, to := w.up.announce(k), 0
	for _, s := range w.up.streams {
		if s.a.at == at && (!s.a.feed() || w.cfg.several || r.IntN(3) == 0) {
			to++
			s.tell(n)
		}
	}
	w.note("upstream: %s changes, notice %d to %d streams of %d", k, n.id, to, at.n)
}

// stepElsewhere has the clients of one instance be told of a change, and those of the other ask.
func (w *world) stepElsewhere(r *rand.Rand) {
	k := pick(r, revision.Tools, revision.Prompts, revision.Resources)
	told := w.anyInstance(r)
	w.changeAt(r, told, k)
	if r.IntN(3) == 0 { // something else, at the same time
		w.changeAt(r, w.anyInstance(r), pick(r, revision.Tools, revision.Prompts, revision.Resources))
	}
	w.settle()
	for range 1 + r.IntN(3) {
		if r.IntN(2) == 0 {
			time.Sleep(time.Duration(r.IntN(int(1500 * time.Millisecond))))
		}
		c := w.anyoneWho(r, func(c *client) bool { return c.at != told })
		w.send(c, w.question(r, c, k))
		w.settle()
	}
}
