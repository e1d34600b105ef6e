package toolkit

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/backend"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/catalog"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client/clienttest"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/notices"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/origin"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/outcome"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/policy/policytest"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/seal"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/secret"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/session"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores/storetest"
)

const (
	legacy = revision.LatestLegacy
	modern = revision.LatestModern
)

// both is for tests that are the same for servers of both eras.
var both = map[string]revision.Revision{"legacy": legacy, "modern": modern}

// world is an endpoint in front of servers in memory, in fake time.
type world struct {
	*testing.T
	*Endpoint

	members  []*member
	logs     *observer.ObservedLogs
	observed *observed
}

// member is one of the servers of a world.
type member struct {
	*clienttest.Server // the server itself

	of       *Server // what the endpoint has of it
	settings *backend.Settings
	store    *storetest.Trial
	observed observed
}

// serves returns a server of that name which speaks those revisions, both eras if none is given. Its tools and
// prompts have the name and two underscores as their prefix, and its URIs begin with its name.
func serves(name string, speaks ...revision.Revision) *member {
	if len(speaks) == 0 {
		speaks = []revision.Revision{modern, legacy}
	}
	m := &member{Server: clienttest.New(speaks...), settings: backend.Defaults(), store: storetest.NewTrial()}
	for _, k := range []revision.Kind{revision.Resources, revision.ResourceTemplates} {
		m.Items[k] = []string{name + "://" + k.String() + "_a", name + "://" + k.String() + "_b"}
	}
	m.Hints = `"ttlMs":3600000,"cacheScope":"public"`
	m.of = &Server{Name: name, Prefix: name + "__", URL: "http://" + name + ".test/mcp", Observer: &m.observed}
	for _, method := range []string{"tools/call", "prompts/get", "resources/read", "completion/complete"} {
		m.On(method, echoes(m))
	}
	return m
}

// with changes a server before the endpoint is made.
func (m *member) with(change func(m *member)) *member {
	change(m)
	return m
}

// personal has a server be sent the Authorization of callers, and show each of them lists of its own.
func (m *member) personal() *member {
	m.of.Credentials.From = "Authorization"
	m.Hints = `"ttlMs":3600000,"cacheScope":"private"`
	return m
}

// echoes answers with a result that says what the server was asked, and with 404 where its session is not open.
func echoes(m *member) clienttest.Script {
	return func(w http.ResponseWriter, r *http.Request, c clienttest.Call) error {
		id := r.Header.Get("Mcp-Session-Id")
		m.Mu.Lock()
		lives := id == "" || m.Sessions[id]
		m.Mu.Unlock()
		if !lives {
			return clienttest.Failure(http.StatusNotFound, -32001, "")(w, r, c)
		}
		return clienttest.Result(w, c, `{"resultType":"complete","content":[{"type":"text","text":"`+m.of.Name+`"}]}`)
	}
}

// holdsBack has a server answer requests of a method only once the function that it returns is called.
func (m *member) holdsBack(method string) (answer func()) {
	script, released := m.Script(method), make(chan struct{})
	m.On(method, func(w http.ResponseWriter, r *http.Request, c clienttest.Call) error {
		<-released
		return script(w, r, c)
	})
	return func() {
		close(released)
		synctest.Wait()
	}
}

// asked returns the requests of a method that have reached a server.
func (m *member) asked(method string) []clienttest.Call { return m.Bodies(method) }

// last returns the last request of a method that has reached a server.
func (m *member) last(t *testing.T, method string) clienttest.Call {
	t.Helper()
	all := m.Bodies(method)
	if len(all) == 0 {
		t.Fatalf("%s has reached no %s", m.of.Name, method)
	}
	return all[len(all)-1]
}

// observed is what an endpoint or a server was told of requests.
type observed struct {
	mu       sync.Mutex // requests may end at the same time
	outcomes []outcome.Outcome
	kinds    []revision.Kind
	servers  []string
	tools    []string
	noticed  revision.KindSet
}

// Answered implements [outcome.Observer].
func (o *observed) Answered(a outcome.Answered) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.outcomes, o.kinds = append(o.outcomes, a.Outcome()), append(o.kinds, a.Kind())
	o.servers, o.tools = append(o.servers, a.Server()), append(o.tools, a.Tool())
}

// Noticed implements [outcome.Observer].
func (o *observed) Noticed(kinds revision.KindSet, _ outcome.Source) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.noticed |= kinds
}

// setup is what a test wants otherwise than by default.
type setup struct {
	settings func(s *Settings)
	rules    []string // of the endpoint, see [policytest.Parse]
	origins  []string
	// waits says that nothing runs in the background until the test has it.
	waits bool
}

// run runs a test in a bubble with those servers behind an endpoint, whose feeds have their lists.
func run(t *testing.T, test func(w *world), members ...*member) {
	t.Helper()
	runWith(t, setup{}, test, members...)
}

// runWith is run with what the test wants otherwise.
func runWith(t *testing.T, with setup, test func(w *world), members ...*member) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, with, members)
		defer w.end()
		if !with.waits {
			w.begin()
		}
		test(w)
	})
}

func newWorld(t *testing.T, with setup, members []*member) *world {
	t.Helper()
	core, logs := observer.New(zap.InfoLevel)
	w := &world{T: t, members: members, logs: logs, observed: new(observed)}
	sealer := session.NewSealer(secret.Ring{secret.New()})
	ready := make(chan struct{})
	close(ready)
	origins, err := origin.Parse(with.origins)
	if err != nil {
		t.Fatal(err)
	}
	s := Settings{
		Name: "mcp_cache", Path: "/mcp", MaxRequest: 64 << 10, MaxCall: 1 << 20, Limits: catalog.Limits{List: 1 << 20, Name: 64, Callers: 4 << 20},
		Memory: 8 << 20, Gate: 2 * time.Second, Origins: origins, Version: "1", SessionTTL: time.Hour, Sessions: session.NewTable(),
		Sealer: func() *seal.Sealer { return sealer }, Settled: ready, Tried: ready, Broker: notices.NewBroker(),
	}
	s.Sessions.SetLimit(100)
	s.Broker.SetLimit(100)
	if with.rules != nil {
		s.Rules = policytest.Parse(t, with.rules...)
	}
	if with.settings != nil {
		with.settings(&s)
	}
	servers := make([]*Server, len(members))
	for i, m := range members {
		m.attach(t, zap.New(core))
		servers[i] = m.of
	}
	if w.Endpoint, err = New(s, servers, w.observed, zap.New(core)); err != nil {
		t.Fatal(err)
	}
	return w
}

// attach gives a server its backend.
func (m *member) attach(t *testing.T, l *zap.Logger) {
	t.Helper()
	m.settings.Feed.Endpoint = m.of.URL
	m.of.Ref = &backend.Ref{Upstream: m.Server, Settings: m.settings, Store: m.store, Logger: l}
	var err error
	if m.of.Backend, err = backend.New(m.of.Name, m.of.URL, m.of.Ref); err != nil {
		t.Fatal(err)
	}
	m.of.Identity.Secret = m.of.Secret
	m.of.Attach()
}

// begin has the background run, and waits until it has nothing to do.
func (w *world) begin() {
	w.Endpoint.Run()
	synctest.Wait()
}

// end ends all that a bubble has to see the end of.
func (w *world) end() {
	w.Settings.Broker.End()
	w.Close()
	for _, m := range w.members {
		m.of.Detach()
		if err := m.of.Destruct(); err != nil {
			w.Error(err)
		}
		<-m.of.Ended()
	}
	time.Sleep(time.Minute) // answers that nobody waits for, and sessions, end in their time
}

// after lets time pass.
func (w *world) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// afterLists lets time pass until a server was last asked for a list of a kind at least so long ago. Feeds fetch lists
// anew on their own, at times that vary.
func (w *world) afterLists(m *member, k revision.Kind, d time.Duration) {
	for asked, since := m.Count(k.Method()), time.Now(); time.Since(since) < d; {
		w.after(time.Second)
		if n := m.Count(k.Method()); n != asked {
			asked, since = n, time.Now()
		}
	}
}

// changes gives a server another list of a kind, has it say so, and lets the feeds find out.
func (w *world) changes(m *member, k revision.Kind, items ...string) {
	m.Set(k, items...)
	m.Notify(revision.ChangeOf(k))
	w.after(m.settings.Feed.Refresh)
}

// fails has a server answer everything with that script.
func (w *world) fails(m *member, answer clienttest.Script) {
	m.OnAll(answer)
	for _, method := range []string{"tools/call", "prompts/get", "resources/read", "completion/complete"} {
		m.On(method, answer)
	}
}

// outdate makes a server's list of a kind outdated without the feeds being told to fetch it.
func (w *world) outdate(m *member, kinds ...revision.Kind) {
	m.of.Cache.Bump(revision.SetOf(kinds...))
}

// wantLogged looks for the lines that the log has had since the last call, by their messages and the servers that
// they name.
func (w *world) wantLogged(want ...string) {
	w.Helper()
	var got []string
	for _, line := range w.logs.TakeAll() {
		if line.Level >= zap.WarnLevel {
			got = append(got, fmt.Sprint(line.Message, ": ", cmp.Or(line.ContextMap()["server"], any("all"))))
		}
	}
	if !slices.Equal(got, want) {
		w.Errorf("the log has %q, want %q", got, want)
	}
}

// entryOf returns everybody's list of those items, fetched now and fresh for an hour.
func entryOf(t *testing.T, at revision.Revision, k revision.Kind, items ...string) *cache.Entry {
	t.Helper()
	all := make([]string, len(items))
	for i, item := range items {
		all[i] = fmt.Sprintf(`{%q:%q}`, k.IDKey(), item)
	}
	page, err := message.ParsePage(fmt.Appendf(nil, `{"ttlMs":3600000,"cacheScope":"public",%q:[%s]}`, k.ItemsKey(), strings.Join(all, ",")), k)
	if err != nil {
		t.Fatal(err)
	}
	return &cache.Entry{
		Kind: k, Revision: at, Partition: cache.Public, Body: message.Single(k, page), Fetched: time.Now(), Lifetime: time.Hour, Mark: cache.Start(),
	}
}
