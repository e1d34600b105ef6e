package mcpcache

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/backend"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/catalog"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/exit"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/ruleset"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/seal"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/session"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/telemetry"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/toolkit"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/version"
)

// several is what a handler sets up in front of several servers, a toolkit.
type several struct {
	options
	*ToolkitOptions

	logger    *zap.Logger
	settings  *settings
	rules     *ruleset.Rules // nil if there are none
	servers   []*upstream    // in order, as far as they are set up
	endpoint  *toolkit.Endpoint
	telemetry *telemetry.Telemetry
	cleaned   bool // the endpoint has been closed

	clients    *toolkit.Clients
	clientsKey string // in the pool; "" while they are not taken
	ids        *seal.Source[*seal.Sealer]
}

// provision sets up the servers, each like the server of a handler of its own without an endpoint,
// and the endpoint in front of them all.
func (s *several) provision(ctx caddy.Context) (err error) {
	door, err := s.check()
	if err != nil {
		return err
	}
	if s.settings, err = s.newSettings(); err != nil {
		return err
	}
	if s.rules, err = ruleset.Load(ctx, configured(s.Rules), s.Unlisted == unlistedAllow, s.logger); err != nil {
		return err
	}
	name := s.settings.exchange.Name
	servers, err := s.provisionServers(ctx, name)
	if err != nil {
		return err
	}
	if door == "" {
		warnOfPrograms(s.logger, s.EndpointOptions, name, s.programs()...)
	}
	events, err := eventsApp(ctx)
	if err != nil {
		return err
	}
	if err := s.openClients(ctx, name); err != nil {
		return err
	}
	app := s.servers[0].app
	x, b := s.settings.exchange, s.settings.backend
	written, joined := s.memoryOfCallers()
	told := telemetry.New(ctx, events, name, app.inForce, s.logger)
	s.endpoint, err = toolkit.New(toolkit.Settings{
		Name: name, Path: x.Path, MaxRequest: x.MaxRequest, MaxCall: x.MaxCall, Memory: b.Memory - written - joined,
		Limits: catalog.Limits{List: b.Feed.MaxList, Name: cmp.Or(s.NameLimit, defaultNameLimit), Callers: joined},
		Gate:   b.Gate, Precompress: b.Precompress, Origins: x.Origins, Version: version.Own(),
		SessionTTL: cmp.Or(time.Duration(s.SessionTTL), defaultSessionTTL), Sessions: s.clients.Sessions,
		Sealer: s.ids.Sealer, Settled: s.ids.Settled(), Tried: s.ids.Tried(), Broker: s.clients.Broker, Door: door, Rules: ruling(s.rules),
	}, servers, told.Requests(), s.logger)
	if err != nil {
		told.Stop()
		return err
	}
	s.telemetry = told
	if s.rules != nil {
		s.rules.Watch(x.Path, told.RuleFailed, s.endpoint.AllLists, s.endpoint.Caches(revision.ResourceTemplates), s.logger)
		app.onStart(func() { go s.rules.Run(ctx) })
	}
	app.onStart(s.endpoint.Run)
	app.onStart(func() { s.ids.Start(ctx, ctx.Storage()) })
	return nil
}

// check returns an error if the handler or its servers have options that do not go together.
// Otherwise it returns the name of the server that is the door, or "".
func (s *several) check() (door string, err error) {
	if s.UpstreamRaw != nil {
		return "", errors.New("servers: there is an upstream, too; a handler has one of them: name the upstream as one of the servers")
	}
	if err := CheckServers(s.Servers); err != nil {
		return "", fmt.Errorf("servers: %w", err)
	}
	if err := CheckNameLimit(s.NameLimit, s.Servers); err != nil {
		return "", err
	}
	if err := s.checkSessions(); err != nil {
		return "", err
	}
	if names := given(*s.ServerOptions); names != nil {
		return "", fmt.Errorf("%s: it is an option of a server; give it to each of the servers that it is for", names[0])
	}
	if names := given(*s.OneServerOptions); names != nil {
		return "", fmt.Errorf("%s: not yet in a toolkit, that is with several servers", names[0])
	}
	return s.CheckDoor(s.EndpointOptions)
}

// provisionServers sets up the servers of a toolkit of that name.
func (s *several) provisionServers(ctx caddy.Context, name string) ([]*toolkit.Server, error) {
	servers := make([]*toolkit.Server, len(s.Servers))
	for i, configured := range s.Servers {
		u := &upstream{options: s.optionsOf(configured), inToolkit: true, logger: ctx.Logger().With(zap.String("server", configured.Name))}
		s.servers = append(s.servers, u)
		err := u.provision(ctx, name+"/"+u.Name)
		if err == nil {
			err = u.attach(ctx)
		}
		if err != nil {
			return nil, fmt.Errorf("server %s: %w", u.Name, err)
		}
		if u.rules != nil {
			u.watchRules(ctx, s.settings.exchange.Path)
		}
		servers[i] = &toolkit.Server{
			Name: u.Name, Prefix: configured.prefix(), URL: u.urls[0], Host: u.feedHost, EndsSessions: configured.SessionLost == End,
			LendsCredentials: u.settings.exchange.LendsCredentials, Credentials: configured.carries(u.guard), Rules: ruling(u.rules), Observer: u.telemetry.Routed(), Ref: u.backend,
		}
	}
	return servers, nil
}

// optionsOf returns the options of one of the servers, with those that it has of the handler.
// Nothing of the server's own is compressed.
func (s *several) optionsOf(server *Server) options {
	never := false
	endpoint := &EndpointOptions{
		StoreRaw: slices.Clone(s.StoreRaw), SecretFile: s.SecretFile, Admit: s.Admit, AdmitFor: s.AdmitFor, Unlisted: s.Unlisted,
		Memory: LeastMemory, Precompress: &never,
	}
	if server.knowsCallers() {
		endpoint.Memory = max(LeastMemory, s.quarter()/int64(len(s.Servers)))
	}
	shared := server.SharedOptions
	shared.MaxList = cmp.Or(shared.MaxList, s.MaxList)
	return options{&server.ServerOptions, &shared, endpoint, new(OneServerOptions)}
}

// programs returns the names of the servers that are programs.
func (s *several) programs() (names []string) {
	for _, u := range s.servers {
		if u.program != nil {
			names = append(names, u.Name)
		}
	}
	return names
}

// ruling returns rules for a toolkit; nil if there are none.
func ruling(rules *ruleset.Rules) toolkit.Rules {
	if rules == nil {
		return nil
	}
	return rules
}

// memoryOfCallers is how many bytes are for the lists of single callers as their servers write
// them, and for those that are joined for callers who are shown different ones. Each is a
// quarter of all, or 0 if there are no such lists.
func (s *several) memoryOfCallers() (written, joined int64) {
	known := slices.ContainsFunc(s.Servers, (*Server).knowsCallers)
	if known {
		written = s.quarter()
	}
	if known || s.rules != nil || slices.ContainsFunc(s.servers, func(u *upstream) bool { return u.rules != nil }) {
		joined = s.quarter()
	}
	return written, joined
}

func (s *several) quarter() int64 { return cmp.Or(s.Memory, backend.Defaults().Memory) / 4 }

// cleanup gives back what provision took. Requests under way go on.
func (s *several) cleanup() error {
	if s.endpoint != nil && !s.cleaned {
		s.endpoint.Close()
		s.telemetry.Stop()
	}
	s.cleaned = true
	if s.clientsKey != "" {
		_, _ = pool.Delete(s.clientsKey) // it does nothing that could fail
		s.clientsKey = ""
	}
	failures := make([]error, len(s.servers))
	for i, u := range s.servers {
		failures[i] = u.cleanup()
	}
	return errors.Join(failures...)
}

// openClients takes what there is of the toolkit's clients. Their streams end when the process does, as
// Caddy waits for requests before it cleans up.
func (s *several) openClients(ctx caddy.Context, name string) (err error) {
	if s.ids, err = seal.NewSource("sessions", s.SecretFile, session.NewSealer, s.logger); err != nil {
		return err
	}
	s.clientsKey = "clients of " + name
	value, _, err := pool.LoadOrNew(s.clientsKey, func() (caddy.Destructor, error) {
		return toolkit.NewClients(), nil
	})
	if err != nil {
		s.clientsKey = ""
		return err
	}
	s.clients = value.(*toolkit.Clients)
	s.clients.Bound(cmp.Or(s.MaxSessions, defaultMaxSessions), s.settings.backend.Memory)
	for _, u := range s.servers {
		if u.program != nil {
			u.program.ShareMemory(s.clients.Messages)
		}
	}
	s.ids.Use(s.clients.Sessions.Secret)
	return exit.Before(ctx, s.clients.Broker.End)
}
