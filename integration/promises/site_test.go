package promises

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/redistest"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// place is a way in which clients reach a server.
type place struct {
	several bool // the server is one of two behind one endpoint
	program bool // the server is a program
	fleet   bool // two Caddys share a Redis

	clientRevision, serverRevision string
}

// String names the place in a test.
func (p place) String() string {
	name := "one server"
	switch {
	case p.several && p.program:
		name = "a program of several"
	case p.several:
		name = "one of several"
	case p.program:
		name = "one program"
	}
	return fmt.Sprintf("%s, %s client, %s server", name, caddytest.EraOf(p.clientRevision), caddytest.EraOf(p.serverRevision))
}

// column is that of the place.
func (p place) column() column {
	switch {
	case p.fleet:
		return overRedis
	case p.program:
		return ofPrograms
	case p.several:
		return ofSeveral
	}
	return ofOne
}

// era is the part of the column.
func (p place) era() string {
	if p.clientRevision != p.serverRevision {
		return across
	}
	return caddytest.EraOf(p.clientRevision)
}

// placesOf returns the places of a column, where clients and servers speak one era, or across.
func placesOf(in column, era string) (places []place) {
	for _, p := range []place{{}, {several: true}, {program: true}, {several: true, program: true}} {
		for _, p.clientRevision = range caddytest.Revisions {
			for _, p.serverRevision = range caddytest.Revisions {
				for _, p.fleet = range []bool{false, true} {
					if p.column() == in && p.era() == era {
						places = append(places, p)
					}
				}
			}
		}
	}
	return places
}

// inEveryPlace is inPlacesOf all columns.
func inEveryPlace(t *testing.T, test func(*testing.T, *site)) {
	for _, c := range columns {
		t.Run(string(c.name), func(t *testing.T) { inPlacesOf(t, c.name, test) })
	}
}

// inPlacesOf runs a test in each place of a column where clients can be answered, with servers of its own.
// Its Caddys are processes: see [newInstance].
func inPlacesOf(t *testing.T, in column, test func(*testing.T, *site)) {
	for _, era := range eras {
		for _, at := range placesOf(in, era) {
			if !at.several && era == across {
				continue // notAcross
			}
			t.Run(at.String(), func(t *testing.T) {
				t.Parallel()
				test(t, newSite(t, at))
			})
		}
	}
}

// site is a place with its servers and its Caddys.
type site struct {
	*caddytest.World // the server whose lists are asked for
	place

	other  *caddytest.World  // which stands beside it; nil if none does
	store  *redistest.Server // nil if there is none
	before string            // what the configuration has before the directive, such as matchers
	redis  string            // the option that names the Redis
	caddys []siteAt          // one, or two of a fleet
	locals []string          // options of the server alone
	common []string          // options of the endpoint
}

// siteAt is a Caddy of a site.
type siteAt struct {
	URL    string
	reload func(body string)
	log    func() string
	ask    func(path string) []byte // the admin API
}

// newSite starts the servers of a place. Each has three tools, which are public for an hour.
func newSite(t *testing.T, p place) *site {
	t.Helper()
	s := &site{World: caddytest.NewUpstream(t), place: p, locals: []string{"refresh 10ms"}}
	s.SetRevisions(p.serverRevision)
	s.Host.ShareCredentials()
	s.Host.Start()
	if p.several {
		s.other = caddytest.NewUpstream(t)
		s.other.Mark(scripted.ToolsList, "other")
		s.other.Host.Start()
	}
	if p.fleet {
		s.store = redistest.Start(t)
		s.redis = "store redis " + s.store.URL
	}
	return s
}

// body is that of the site, with options of the server.
func (s *site) body() string {
	upstream := s.Host.URL
	if s.program {
		upstream = caddytest.RelayTo(upstream)
	}
	if !s.several {
		return s.before + "\n" + caddytest.Directive(upstream, slices.Concat(s.locals, s.common, []string{s.redis})...)
	}
	return s.before + "\n" + caddytest.ToolkitOf([]caddytest.Member{{Name: "one", URL: upstream, Options: s.locals}, {Name: "two", URL: s.other.Host.URL}}, append(s.common, s.redis)...)
}

// begin starts the Caddys, with those options of the server.
func (s *site) begin(options ...string) {
	s.T.Helper()
	s.locals = append(s.locals, options...)
	if !s.fleet {
		p := caddytest.StartProxy(s.T, s.body())
		ask := func(path string) []byte {
			_, body := caddytest.AskAdmin(s.T, http.MethodGet, path, nil)
			return body
		}
		s.caddys = []siteAt{{p.URL, p.Reload, p.Log, ask}}
		return
	}
	for _, name := range []string{"a", "b"} {
		i := startInstanceOf(s.T, name, s.body())
		i.awaitFleetOf(s.handler(), "together")
		s.caddys = append(s.caddys, i.siteAt())
	}
}

// siteAt is the instance as a Caddy of a site.
func (i *instance) siteAt() siteAt {
	return siteAt{i.URL, i.reload, func() string { return strings.Join(i.Lines(), "\n") + i.Complaints() }, i.ask}
}

// handler returns the name under which the admin API has the server.
func (s *site) handler() string {
	if s.several {
		return "mcp_cache/one"
	}
	return "mcp_cache"
}

// handlers returns the names of all servers there.
func (s *site) handlers() []string {
	if s.several {
		return []string{"mcp_cache/one", "mcp_cache/two"}
	}
	return []string{"mcp_cache"}
}

// clients returns a client at each Caddy.
func (s *site) clients(authorization string) (all []*fixture.Raw) {
	s.T.Helper()
	for _, at := range s.caddys {
		all = append(all, fixture.New(s.T, at.URL, s.clientRevision, authorization))
	}
	return all
}

// settled returns a client at each Caddy. It waits until the feed has its lists, and the client's tools are a fresh hit.
func (s *site) settled(authorization string) []*fixture.Raw {
	s.T.Helper()
	all := s.clients(authorization)
	for i, c := range all {
		fixture.Await(s.T, "the feeds to be ready", func() bool {
			var status caddytest.Status
			return json.Unmarshal(s.caddys[i].ask("/mcp_cache/"+s.handler()), &status) == nil && status.Ready
		})
		s.awaitMark(c, "v1")
	}
	return all
}

// awaitMark waits until a client's tools are a fresh hit, and the server's have that mark.
func (s *site) awaitMark(c *fixture.Raw, mark string) *fixture.Answer {
	s.T.Helper()
	return c.AwaitList(scripted.ToolsList, "a hit of "+mark, func(a *fixture.Answer) bool {
		return a.CacheStatus().Hit && a.CacheStatus().Detail == "" && s.isWhole(a, mark)
	})
}

// isWhole reports whether a list has all tools, those of the server with that mark.
func (s *site) isWhole(a *fixture.Answer, mark string) bool {
	own, others := s.tools(a)
	return slices.Equal(own, scripted.Items(scripted.ToolsList, mark, 3)) && s.hasOthers(others)
}

// hasOthers reports whether these are all tools of the server beside it.
func (s *site) hasOthers(others []string) bool {
	return !s.several || slices.Equal(others, scripted.Items(scripted.ToolsList, "other", 3))
}

// tools returns the tools in a list, as the servers wrote them: those of the server, and those of the
// one beside it.
func (s *site) tools(a *fixture.Answer) (own, others []string) {
	for _, item := range a.Items("tools") {
		if before, after, cut := strings.Cut(item, `"two__`); cut && s.several {
			others = append(others, before+`"`+after)
			continue
		}
		if s.several {
			item = strings.Replace(item, `"one__`, `"`, 1)
		}
		own = append(own, item)
	}
	return own, others
}

// named is the name of a tool of the server at the endpoint.
func (s *site) named(tool string) string {
	if s.several {
		return "one__" + tool
	}
	return tool
}

// call calls a tool of the server.
func (s *site) call(c *fixture.Raw, tool string) *fixture.Answer {
	s.T.Helper()
	return c.Call("tools/call", c.Params(fmt.Sprintf(`"name":%q,"arguments":{}`, s.named(tool))))
}

// isCalled reports whether an answer is that of a tool.
func isCalled(a *fixture.Answer, tool string) bool {
	var result struct {
		Content []struct{ Text string }
	}
	return json.Unmarshal(a.Part("result"), &result) == nil && len(result.Content) == 1 && result.Content[0].Text == "called "+tool
}

// change has the server announce tools of another mark.
func (s *site) change(mark string) {
	s.Mark(scripted.ToolsList, mark)
	s.Changed(scripted.Everybody, scripted.ToolsList)
}
