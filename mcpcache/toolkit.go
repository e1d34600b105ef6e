package mcpcache

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/backend"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/catalog"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/feed"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/fleet"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/keeper"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/report"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/ruleset"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/telemetry"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/toolkit"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/version"
)

// provisionToolkit sets up the servers of a toolkit, each like a handler of its own
// without an endpoint, and the endpoint in front of them all.
func (h *Handler) provisionToolkit(ctx caddy.Context) (err error) {
	door, err := h.checkToolkit()
	if err != nil {
		return err
	}
	if h.settings, err = h.newSettings(); err != nil {
		return err
	}
	if h.rules, err = ruleset.Load(ctx, configured(h.Rules), h.Unlisted == unlistedAllow, h.logger); err != nil {
		return err
	}
	name := h.settings.exchange.Name
	servers, err := h.provisionServers(ctx, name)
	if err != nil {
		return err
	}
	if door == "" {
		h.warnOfPrograms(h.programs()...)
	}
	events, err := eventsApp(ctx)
	if err != nil {
		return err
	}
	h.app = h.Servers[0].app
	if err := h.openClients(ctx, name); err != nil {
		return err
	}
	x, b := h.settings.exchange, h.settings.backend
	written, joined := h.memoryOfCallers()
	told := telemetry.New(ctx, events, name, h.app.inForce, h.logger)
	h.toolkit, err = toolkit.New(toolkit.Settings{
		Name: name, Path: x.Path, MaxRequest: x.MaxRequest, MaxCall: x.MaxCall, Memory: b.Memory - written - joined,
		Limits: catalog.Limits{List: b.Feed.MaxList, Name: orDefault(h.NameLimit, defaultNameLimit), Callers: joined},
		Gate:   b.Gate, Precompress: b.Precompress, Origins: x.Origins, Version: version.Own(),
		SessionTTL: orDefault(time.Duration(h.SessionTTL), defaultSessionTTL), Sessions: h.clients.Sessions,
		Sealer: h.ids.Sealer, Settled: h.ids.Settled(), Tried: h.ids.Tried(), Board: h.clients.Board, Door: door, Rules: h.ruling(),
	}, servers, told.Requests(), h.logger)
	if err != nil {
		told.Stop()
		return err
	}
	h.telemetry = told
	if h.rules != nil {
		h.rules.Watch(x.Path, told.RuleFailed, h.joinedLists, h.joinsTemplates(), h.logger)
		h.app.onStart(func() { go h.rules.Run(ctx) })
	}
	report.Live.Add(reportedToolkit{h})
	h.app.onStart(h.toolkit.Run)
	h.app.onStart(func() { h.ids.Start(ctx, ctx.Storage()) })
	return nil
}

// provisionServers sets up the servers of a toolkit of that name.
func (h *Handler) provisionServers(ctx caddy.Context, name string) ([]*toolkit.Server, error) {
	servers := make([]*toolkit.Server, len(h.Servers))
	for i, s := range h.Servers {
		s.inherit(h)
		if err := s.provision(ctx, name+"/"+s.Name); err != nil {
			return nil, fmt.Errorf("server %s: %w", s.Name, err)
		}
		if s.rules != nil {
			s.watchRules(ctx, h.settings.exchange.Path)
		}
		servers[i] = &toolkit.Server{
			Name: s.Name, Prefix: s.prefix(), URL: s.endpointURL, Host: s.feedHost, EndsSessions: s.SessionLost == End,
			LendsCredentials: s.settings.exchange.LendsCredentials, Carries: s.carries(), Rules: s.ruling(), Observer: s.telemetry.Routed(), Tenant: s.backend,
		}
	}
	return servers, nil
}

// programs returns the names of the servers that are programs.
func (h *Handler) programs() (names []string) {
	for _, s := range h.Servers {
		if s.program != nil {
			names = append(names, s.Name)
		}
	}
	return names
}

// ruling returns the rules of the handler for a toolkit; nil if there are none.
func (h *Handler) ruling() toolkit.Rules {
	if h.rules == nil {
		return nil
	}
	return h.rules
}

// joinedLists returns the lists that the rules of a toolkit could be about, with all that is
// in them; none before there is a copy of all lists of all servers.
func (h *Handler) joinedLists() (lists []*catalog.List) {
	if !slices.ContainsFunc(h.Servers, func(s *Server) bool { return !report.Hydrated(s.backend.Feeds) }) {
		for _, k := range revision.Kinds() {
			if l := h.toolkit.ShownTo(nil, revision.LatestModern, k); l.HasAny() && k.ItemsKey() != "" {
				lists = append(lists, l)
			}
		}
	}
	return lists
}

// joinsTemplates reports whether all templates of the servers are in the joined list.
func (h *Handler) joinsTemplates() bool {
	return !slices.ContainsFunc(h.Servers, func(s *Server) bool { return !s.settings.backend.Kinds.Has(revision.ResourceTemplates) })
}

// checkToolkit returns an error if the handler or its servers have options that they
// cannot have. Otherwise it returns which server is the door, "" for none.
func (h *Handler) checkToolkit() (door string, err error) {
	if h.UpstreamRaw != nil {
		return "", errors.New("servers: there is an upstream, too; a handler has one of them: name the upstream as one of the servers")
	}
	if err := CheckServers(h.Servers); err != nil {
		return "", fmt.Errorf("servers: %w", err)
	}
	if err := CheckNameLimit(h.NameLimit, h.Servers); err != nil {
		return "", err
	}
	if err := h.checkSessions(); err != nil {
		return "", err
	}
	for _, option := range h.optionsOfServers() {
		if option.given {
			return "", fmt.Errorf("%s: it is an option of a server; give it to each of the servers that it is for", option.name)
		}
	}
	if name := firstGiven(h.optionsNotYet()); name != "" {
		return "", fmt.Errorf("%s: not yet in a toolkit, that is with several servers", name)
	}
	for _, s := range h.Servers {
		if name := firstGiven(append(s.optionsNotYet(), s.optionsOfToolkit()...)); name != "" {
			return "", fmt.Errorf("server %s: %s: not an option of a server of a toolkit, or not yet", s.Name, name)
		}
	}
	return h.CheckDoor()
}

// given says whether an option is.
type given struct {
	name  string
	given bool
}

func firstGiven(options []given) string {
	if i := slices.IndexFunc(options, func(o given) bool { return o.given }); i >= 0 {
		return options[i].name
	}
	return ""
}

// optionsOfServers are those that each server of a toolkit has for itself.
func (h *Handler) optionsOfServers() []given {
	return []given{
		{"eras", h.Eras != nil}, {"client_name", h.ClientName != ""}, {"host", h.Host != ""}, {"kinds", h.Kinds != nil},
		{"ttl", h.TTL != 0 || h.TTLByKind != nil}, {"min_ttl", h.MinTTL != 0 || h.MinTTLByKind != nil}, {"max_ttl", h.MaxTTL != 0 || h.MaxTTLByKind != nil},
		{"stale_if_error", h.StaleIfError != nil || h.StaleAfterNotice}, {"scope", h.Scope != "" || h.ScopeAlways},
		{"refresh", h.Refresh != 0}, {"max_pages", h.MaxPages != 0}, {"guard", h.GuardRaw != nil},
	}
}

// optionsNotYet are those that nothing in a toolkit goes by yet.
func (h *Handler) optionsNotYet() []given {
	return []given{
		{"same_hosts", h.SameHosts != nil}, {"page_size", h.PageSize != 0}, {"partition", h.Partition != nil}, {"harmless", h.Harmless != nil},
	}
}

// optionsOfToolkit are those that all servers of a toolkit have together.
func (h *Handler) optionsOfToolkit() []given {
	return []given{
		{"servers", h.Servers != nil}, {"door", h.Door != ""}, {"admit", h.Admit != "" || h.AdmitFor != 0}, {"unlisted", h.Unlisted != ""}, {"name_limit", h.NameLimit != 0}, {"gate", h.Gate != nil}, {"origins", h.Origins != nil}, {"store", h.StoreRaw != nil},
		{"secret_file", h.SecretFile != ""}, {"session_ttl", h.SessionTTL != 0}, {"max_sessions", h.MaxSessions != 0},
		{"max_request", h.MaxRequest != 0}, {"max_call", h.MaxCall != 0}, {"memory", h.Memory != 0}, {"precompress", h.Precompress != nil},
	}
}

// inherit gives a server what it has of the toolkit. Nothing of it is compressed.
func (s *Server) inherit(h *Handler) {
	never := false
	s.StoreRaw, s.Memory, s.Precompress = slices.Clone(h.StoreRaw), LeastMemory, &never
	if s.knowsCallers() {
		s.Memory = max(LeastMemory, h.quarter()/int64(len(h.Servers)))
	}
	s.SecretFile, s.Admit, s.AdmitFor, s.Unlisted = h.SecretFile, h.Admit, h.AdmitFor, h.Unlisted
	if s.MaxList == 0 {
		s.MaxList = h.MaxList
	}
}

// memoryOfCallers is how many bytes are for the lists of single callers as their servers write
// them, and for those that are joined for callers who are shown different ones. Each is a
// quarter of all, or 0 if there are no such lists.
func (h *Handler) memoryOfCallers() (written, joined int64) {
	known := slices.ContainsFunc(h.Servers, (*Server).knowsCallers)
	if known {
		written = h.quarter()
	}
	if known || h.rules != nil || slices.ContainsFunc(h.Servers, func(s *Server) bool { return s.rules != nil }) {
		joined = h.quarter()
	}
	return written, joined
}

func (h *Handler) quarter() int64 { return orDefault(h.Memory, backend.Defaults().Memory) / 4 }

// cleanupToolkit gives back what provisionToolkit took. Requests under way go on.
func (h *Handler) cleanupToolkit() error {
	if h.toolkit != nil && !h.cleaned {
		report.Live.Remove(reportedToolkit{h}, telemetry.Forget)
		h.toolkit.Close()
		h.telemetry.Stop()
	}
	h.cleaned = true
	if h.clientsKey != "" {
		_, _ = pool.Delete(h.clientsKey) // it does nothing that could fail
		h.clientsKey = ""
	}
	failures := make([]error, len(h.Servers))
	for i, s := range h.Servers {
		if s != nil {
			failures[i] = s.Cleanup()
		}
	}
	return errors.Join(failures...)
}

// reportedToolkit is what operators see of a toolkit.
type reportedToolkit struct{ h *Handler }

// Name implements [report.Source].
func (r reportedToolkit) Name() string { return r.h.settings.exchange.Name }

// Upstream implements [report.Source].
func (reportedToolkit) Upstream() string { return "" }

// Program implements [report.Source].
func (reportedToolkit) Program() report.Program { return nil }

// Remarks implements [report.Source].
func (r reportedToolkit) Remarks() []string { return r.h.toolkit.Remarks.Texts() }

// Fleet implements [report.Source].
func (reportedToolkit) Fleet() (*keeper.Fleet, fleet.Standing) { return nil, fleet.Standing{} }

// Replicas implements [report.Source].
func (reportedToolkit) Replicas() []string { return nil }

// Feeds implements [report.Source].
func (reportedToolkit) Feeds() *feed.Group { return nil }

// Ready implements [report.Source].
func (r reportedToolkit) Ready() bool { return r.h.toolkit.Ready() }

// Servers implements [report.Source].
func (r reportedToolkit) Servers() []report.Source {
	servers := make([]report.Source, len(r.h.Servers))
	for i, s := range r.h.Servers {
		servers[i] = reported{&s.Handler}
	}
	return servers
}

// ShownTo implements [report.Source].
func (r reportedToolkit) ShownTo(views *catalog.Views, k revision.Kind) *catalog.List {
	return r.h.toolkit.ShownTo(views, revision.LatestModern, k)
}

// Conflicts implements [report.Source].
func (r reportedToolkit) Conflicts() []report.Conflict {
	found := r.h.toolkit.Conflicts()
	conflicts := make([]report.Conflict, len(found))
	for i, c := range found {
		conflicts[i] = report.Conflict{Kind: c.Kind.String(), Server: c.Server, Item: c.Item, Why: c.Why}
	}
	return conflicts
}

// Sessions implements [report.Source].
func (r reportedToolkit) Sessions() int { return r.h.clients.Sessions.Len() }

// Listeners implements [report.Source].
func (r reportedToolkit) Listeners() int { return r.h.clients.Board.Len() }

// Pinned implements [report.Source].
func (r reportedToolkit) Pinned(at revision.Revision, k revision.Kind) *cache.Entry {
	return r.h.toolkit.Joined(at, k)
}

// Left implements [report.Source].
func (r reportedToolkit) Left(e *cache.Entry, now time.Time) time.Duration {
	return r.h.toolkit.Left(e.Revision, e.Kind, now)
}

// Hits implements [report.Source].
func (r reportedToolkit) Hits(at revision.Revision, k revision.Kind) uint64 {
	return r.h.telemetry.Hits(at, k)
}

// Policy implements [report.Source].
func (r reportedToolkit) Policy() report.Policy {
	if r.h.rules == nil {
		return nil
	}
	return r.h.rules
}

// Shown implements [report.Source]. What callers are shown is made of several servers' rules,
// and is none of a single view.
func (reportedToolkit) Shown() []cache.ShownList { return nil }

// Callers implements [report.Source].
func (reportedToolkit) Callers() int { return 0 }

// Purge implements [report.Source]. What is kept for callers, the servers have.
func (r reportedToolkit) Purge() {
	for _, s := range r.Servers() {
		s.Purge()
	}
}

// Interface guards
var _ report.Source = reportedToolkit{}
