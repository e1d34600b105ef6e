package toolkit

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/callerlists"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client/clienttest"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

const theChallenge = `Bearer resource_metadata="http://door.test/.well-known/oauth-protected-resource/mcp"`

// lets has a server answer those alone who have one of the credentials.
func (m *member) lets(credentials ...string) {
	open := func(answer clienttest.Script) clienttest.Script {
		return func(w http.ResponseWriter, r *http.Request, c clienttest.Call) error {
			if !slices.Contains(credentials, r.Header.Get("Authorization")) {
				return clienttest.Status(http.StatusUnauthorized, "Www-Authenticate", theChallenge)(w, r, c)
			}
			return answer(w, r, c)
		}
	}
	m.OnAll(open(m.Answer))
	m.On("tools/call", open(echoes(m)))
}

// eachDoor runs a test in front of a server and of a door, of each era, that lets in who has the credential Bearer good.
func eachDoor(t *testing.T, test func(w *world, door *member), change ...func(m *member)) {
	t.Helper()
	for _, speaks := range []revision.Revision{legacy, modern} {
		t.Run("a door of "+speaks.String(), func(t *testing.T) {
			door := serves("door", speaks).personal()
			door.lets("Bearer good")
			for _, f := range change {
				f(door)
			}
			runWith(t, setup{settings: func(s *Settings) { s.Door = "door" }}, func(w *world) { test(w, door) }, serves("one"), door)
		})
	}
}

// TestTheDoorLetsCallersIn: a caller whom the door lets in is answered by all servers. The door is asked about that caller
// once in a while, not for each request.
func TestTheDoorLetsCallersIn(t *testing.T) {
	eachDoor(t, func(w *world, door *member) {
		w.eachEra(func(c *caller) {
			c.list(revision.Tools).wantNames(w, revision.Tools, "one__tools_a", "one__tools_b", "door__tools_a", "door__tools_b")
			c.call("one__tools_a").wantOf(w, "one")
			c.call("door__tools_a").wantOf(w, "door")
			before := len(door.asked("tools/list")) + len(door.asked("prompts/list"))
			for range 5 {
				c.call("one__tools_a").wantOf(w, "one")
			}
			if n := len(door.asked("tools/list")) + len(door.asked("prompts/list")) - before; n != 0 {
				w.Errorf("the door is asked %d times more", n)
			}
		}, "Authorization", "Bearer good")
		w.after(door.settings.AdmitFor + time.Second)
		door.lets()
		w.calls(modern, "Authorization", "Bearer good").call("one__tools_a").want(w, "a call after a while", http.StatusUnauthorized, -32600)
	})
}

// TestTheDoorRefusesCallers: a caller whom the door does not let in is given the door's refusal, with its challenge at the
// site's address, whatever the request is. No other server is asked.
func TestTheDoorRefusesCallers(t *testing.T) {
	eachDoor(t, func(w *world, _ *member) {
		w.eachEra(func(c *caller) {
			for _, credential := range []string{"", "Bearer bad"} {
				before := len(w.members[0].Bodies("tools/call"))
				requests := map[string]*http.Request{
					"a list": c.request(http.MethodPost, "/mcp", c.message("prompts/list", ""), "Mcp-Method", "prompts/list", "Authorization", credential),
					"a call": c.calling("one__tools_a"), "another method": c.request(http.MethodPost, "/mcp", c.message("x", ""), "Mcp-Method", "x"),
					"a stream": c.listening("toolsListChanged"),
				}
				if c.at == legacy {
					initialize := c.message("initialize", `"protocolVersion":"2025-11-25","capabilities":{}`)
					requests["a session"] = c.request(http.MethodPost, "/mcp", initialize, "Mcp-Session-Id", "")
					requests["a notification"] = c.request(http.MethodPost, "/mcp", `{"jsonrpc":"2.0","method":"notifications/x"}`)
				}
				for name, r := range requests {
					if r.Header.Del("Authorization"); credential != "" {
						r.Header.Set("Authorization", credential)
					}
					a := c.send(r)
					a.want(w, name, http.StatusUnauthorized, -32600)
					wantSaid(w, a, `the MCP server "door" refuses the caller's credentials`)
					challenge, want := a.Header()["Www-Authenticate"], strings.Replace(theChallenge, "door.test", "site.test", 1)
					if !slices.Equal(challenge, []string{want}) || a.status() != "fwd=bypass; detail=admission" {
						w.Errorf("%s has the challenge %q and the status %q", name, challenge, a.status())
					}
					if a.Header()["Mcp-Session-Id"] != nil {
						w.Errorf("%s opens a session", name)
					}
				}
				if len(w.members[0].Bodies("tools/call")) != before {
					w.Error("another server is called")
				}
			}
		}, "Authorization", "Bearer good")
		wantDoorLogged(w)
	})
}

// TestTheDoorIsAskedByItsLists: a caller is let in if the door shows the caller one of its lists. The endpoint asks for
// the list that the caller wants first, and then for the others.
func TestTheDoorIsAskedByItsLists(t *testing.T) {
	only := func(kinds ...revision.Kind) func(m *member) {
		return func(m *member) { m.Kinds = kinds }
	}
	for name, tt := range map[string]struct {
		change func(m *member)
		ask    revision.Kind
		asked  string
		code   int
	}{
		"the list that is asked for": {func(*member) {}, revision.Prompts, "prompts/list", 0},
		"tools first":                {func(*member) {}, revision.Discover, "tools/list", 0},
		"no tools":                   {only(revision.Prompts), revision.Discover, "prompts/list", 0},
		"resources alone":            {only(revision.Resources), revision.Discover, "resources/list", 0},
		"tools that are not cached":  {func(m *member) { m.settings.Kinds &^= revision.SetOf(revision.Tools) }, revision.Discover, "prompts/list", 0},
	} {
		t.Run(name, func(t *testing.T) {
			door := serves("door", modern).personal()
			tt.change(door)
			for _, k := range []revision.Kind{revision.Tools, revision.Prompts, revision.Resources, revision.ResourceTemplates} {
				if !slices.Contains(door.Kinds, k) {
					door.On(k.Method(), clienttest.Failure(http.StatusNotFound, -32601, ""))
				}
			}
			runWith(t, setup{settings: func(s *Settings) { s.Door = "door" }}, func(w *world) {
				sent := len(door.Requests)
				c := w.calls(modern, "Authorization", "Bearer good")
				c.list(tt.ask).want(w, "a list", http.StatusOK, tt.code)
				var asked []string
				for _, r := range door.Requests[sent:] {
					if r.Header.Get("Authorization") != "" && r.Method != "server/discover" {
						asked = append(asked, r.Method)
					}
				}
				if !slices.Contains(asked, tt.asked) || name == "tools first" && slices.Contains(asked, "prompts/list") ||
					name == "the list that is asked for" && asked[0] != tt.asked {
					w.Errorf("the door is asked for %q, want %s", asked, tt.asked)
				}
			}, door)
		})
	}
}

// TestADoorWithoutLists: nobody is let in by a door that has no list, and the log says so.
func TestADoorWithoutLists(t *testing.T) {
	eachDoor(t, func(w *world, _ *member) {
		a := w.calls(modern, "Authorization", "Bearer good").call("one__tools_a")
		a.want(w, "a call", http.StatusBadGateway, -32603)
		wantSaid(w, a, `the MCP server "door" does not answer as it should`)
		wantDoorLogged(w, "door does not answer")
	}, func(m *member) {
		m.Kinds = nil
		for _, k := range authenticationKinds {
			m.On(k.Method(), clienttest.Failure(http.StatusOK, -32601, ""))
		}
		m.On("initialize", nil)
	})
}

// TestADoorThatDoesNotAnswer: a caller is told why the door cannot say anything of them, and the log has that once. Callers
// whom the door has let in lately are in.
func TestADoorThatDoesNotAnswer(t *testing.T) {
	for says, tt := range map[string]struct {
		answer clienttest.Script
		status int
	}{
		`the MCP server "door" cannot be reached`:            {clienttest.Refuse, 502},
		`the MCP server "door" did not answer in time`:       {clienttest.Hang, 504},
		`the MCP server "door" does not answer as it should`: {func(http.ResponseWriter, *http.Request, clienttest.Call) error { return errors.New("x") }, 502},
	} {
		eachDoor(t, func(w *world, door *member) {
			known := w.calls(modern, "Authorization", "Bearer good")
			known.list(revision.Tools).want(w, "a list", http.StatusOK, 0)
			w.fails(door, tt.answer)
			for _, other := range []string{"Bearer other", "Bearer another"} {
				a := w.calls(modern, "Authorization", other).call("one__tools_a")
				a.want(w, "a call", tt.status, -32603)
				if wantSaid(w, a, says); a.status() != "fwd=bypass; detail=admission" {
					w.Errorf("the status is %q", a.status())
				}
			}
			known.call("one__tools_a").wantOf(w, "one")
			wantDoorLogged(w, "door does not answer")
			door.lets("Bearer other")
			w.calls(modern, "Authorization", "Bearer other").call("one__tools_a").wantOf(w, "one")
		})
	}
}

// wantDoorLogged looks for what the log has of the door besides its feeds, which the door does not let in.
func wantDoorLogged(w *world, want ...string) {
	w.Helper()
	var got []string
	for _, line := range w.logs.TakeAll() {
		if line.Level >= zap.WarnLevel && line.ContextMap()["server"] == "door" {
			got = append(got, line.Message)
		}
	}
	if !slices.Equal(got, want) {
		w.Errorf("the log has %q, want %q", got, want)
	}
}

// countedBytes counts the bytes that are read of a body.
type countedBytes struct {
	io.Reader

	read int
}

func (c *countedBytes) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.read += n
	return n, err
}

func (*countedBytes) Close() error { return nil }

// TestLongBodiesAreReadOfCallersAlone: no more than the beginning of a long request is read before the door has let its
// caller in. The header says in which era the door is asked.
func TestLongBodiesAreReadOfCallersAlone(t *testing.T) {
	eachDoor(t, func(w *world, _ *member) {
		w.eachEra(func(c *caller) {
			for credential, want := range map[string]int{"Bearer good": http.StatusOK, "Bearer bad": http.StatusUnauthorized} {
				params := `"name":"one__tools_a","arguments":{"x":"` + strings.Repeat("x", 500_000) + `"}`
				header := []string{"Mcp-Method", "tools/call", "Mcp-Name", "one__tools_a", "Authorization", credential}
				r := c.request(http.MethodPost, "/mcp", c.message("tools/call", params), header...)
				body := &countedBytes{Reader: r.Body}
				r.Body = body
				a := c.send(r)
				if a.Code != want || (body.read >= 500_000) != (want == http.StatusOK) {
					w.Errorf("for %s in %s, %d bytes are read and answered with %s", credential, c.at, body.read, a)
				}
			}
		}, "Authorization", "Bearer good")
	})
}

// TestTheDoorRefusesCalls: a caller whose call the door refuses is given that refusal with its challenge, and has to be let
// in anew. Another server's refusal is not the endpoint's.
func TestTheDoorRefusesCalls(t *testing.T) {
	refuse := clienttest.Status(http.StatusForbidden, "Www-Authenticate", theChallenge)
	for name, lessens := range map[string]func(door *member){
		"a call":    func(door *member) { door.On("tools/call", refuse) },
		"a session": func(door *member) { door.On("initialize", refuse); door.On("tools/call", refuse) },
	} {
		eachDoor(t, func(w *world, door *member) {
			w.eachEra(func(c *caller) {
				c.list(revision.Tools).want(w, "a list", http.StatusOK, 0)
				lessens(door)
				a := c.call("door__tools_a")
				a.want(w, name, http.StatusForbidden, -32600)
				if got := a.Header().Get("Www-Authenticate"); !strings.Contains(got, "site.test") {
					w.Errorf("%s has the challenge %q", name, got)
				}
				door.lets()
				c.call("one__tools_a").want(w, "the next call", http.StatusUnauthorized, -32600)
				door.lets("Bearer good")
				c.call("one__tools_a").wantOf(w, "one")
				w.members[0].On("tools/call", refuse)
				other := c.call("one__tools_a")
				if other.want(w, "another server's refusal", http.StatusBadGateway, -32603); other.Header()["Www-Authenticate"] != nil {
					w.Errorf("another server's refusal has the challenge %q", other.Header()["Www-Authenticate"])
				}
				w.members[0].On("tools/call", echoes(w.members[0]))
			}, "Authorization", "Bearer good")
		})
	}
}

// TestTheDoorRefusesLists: a caller whom the door has let in, and now refuses a list that has changed, is given the door's
// refusal, and no list without the door's part.
func TestTheDoorRefusesLists(t *testing.T) {
	eachDoor(t, func(w *world, door *member) {
		w.eachEra(func(c *caller) {
			c.list(revision.Tools).want(w, "a list", http.StatusOK, 0)
			door.On("tools/list", clienttest.Status(http.StatusForbidden, "Www-Authenticate", theChallenge))
			w.outdate(door, revision.Tools)
			a := c.list(revision.Tools)
			if a.want(w, "a list that the door refuses", http.StatusForbidden, -32600); a.status() != "fwd=bypass; detail=admission" {
				w.Errorf("a list that the door refuses has the status %q", a.status())
			}
			door.lets("Bearer good")
			c.list(revision.Tools).wantNames(w, revision.Tools, "one__tools_a", "one__tools_b", "door__tools_a", "door__tools_b")
		}, "Authorization", "Bearer good")
	})
}

// TestStreamsEndWithTheirCallers: a client that listens is told nothing more once the door refuses it. A door that does not
// answer ends no stream.
func TestStreamsEndWithTheirCallers(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(door *member)
		ends   bool
	}{
		"it lets in": {func(*member) {}, false}, "it refuses": {func(door *member) { door.lets() }, true},
		"it is down": {func(door *member) { door.OnAll(clienttest.Refuse) }, false},
		"it hangs":   {func(door *member) { door.OnAll(clienttest.Hang) }, false},
	} {
		eachDoor(t, func(w *world, door *member) {
			w.eachEra(func(c *caller) {
				a, leave := c.begin(c.listening("toolsListChanged"))
				defer leave()
				if a.isOver() {
					w.Fatalf("the stream is over: %s", a)
				}
				tt.change(door)
				w.after(door.settings.AdmitFor + 2*beat)
				if a.isOver() != tt.ends {
					w.Errorf("%s: the stream of a client of %s is over: %v: %s", name, c.at, a.isOver(), a)
				}
				door.lets("Bearer good")
				w.after(callerlists.Within) // the hanging requests end
			}, "Authorization", "Bearer good")
		})
	}
}
