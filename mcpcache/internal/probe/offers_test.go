package probe

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// notHere refuses every list but those of the tools.
func notHere(s *scripted.Server, script scripted.Script) {
	for _, method := range scripted.ListMethods()[1:] {
		s.SetScript(method, script)
	}
}

// TestUnofferedLists looks at servers that give lists which they do not offer, or not as
// the protocol has it.
func TestUnofferedLists(t *testing.T) {
	for _, capabilities := range []string{`{}`, `{"tools":true}`, `{"tools":[]}`, `{"tools":null}`, `null`, `[]`, `"tools"`} {
		t.Run(capabilities, func(t *testing.T) {
			s := newScripted()
			s.SetCapabilities(capabilities)
			notHere(s, func(x *scripted.Exchange) { x.Error(http.StatusOK, -32601, "not here") })
			r := run(t, options(t, serve(t, s)))
			if !r.Usable || len(r.FailedEras) > 0 || len(r.Eras) != 2 {
				t.Fatalf("the report is %s", asJSON(t, r))
			}
			for _, e := range r.Eras {
				if l := e.Lists[0]; l.Kind != "tools" || !l.Unoffered || l.Items != 3 || !l.Again.Same || !l.Capabilities.Same {
					t.Errorf("the tools (%s) are %+v", e.Era, l)
				}
			}
			wantWords(t, r, "- It lists tools, though its capabilities do not have that, or not as an object. Clients may never ask for it. Have the server offer it.")
		})
	}
}

// TestNotOffered has a server refuse what it does not offer, in every way: it is asked for
// once in each era, and that is no failure.
func TestNotOffered(t *testing.T) {
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	for name, script := range map[string]scripted.Script{
		"an error":         func(x *scripted.Exchange) { x.Error(http.StatusOK, -32601, "not here") },
		"another error":    scripted.ErrorObject,
		"404":              scripted.Status(http.StatusNotFound),
		"401":              scripted.Status(http.StatusUnauthorized),
		"500":              scripted.Status(http.StatusInternalServerError),
		"garbage":          scripted.Garbage,
		"silence":          scripted.Hang(release),
		"the session ends": func(*scripted.Exchange) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScripted()
			s.SetCapabilities(`{"tools":{"listChanged":true}}`)
			asked := make(chan string, 100)
			notHere(s, func(x *scripted.Exchange) {
				asked <- x.Method
				script(x)
			})
			o := options(t, serve(t, s))
			if name == "silence" {
				o.Timeout = 500 * time.Millisecond
			}
			r := run(t, o)
			if !r.Usable || r.Trouble != nil || len(r.FailedEras) > 0 {
				t.Errorf("the report is %s", asJSON(t, r))
			}
			want := []string{"prompts", "resources", "resource_templates"}
			for _, e := range r.Eras {
				if !slices.Equal(e.NotOffered, want) || list(t, r, "tools").Unoffered || e.Stream != StreamOpen {
					t.Errorf("%s is %s", e.Era, asJSON(t, r))
				}
			}
			if n := len(asked); n != 6 && (n != 2 || name != "silence") {
				t.Errorf("it was asked %d times", n)
			}
			for _, kind := range want {
				if row := "\n" + kind + strings.Repeat(" ", len("resource_templates")-len(kind)) + "  not offered\n"; strings.Count(r.Text(), row) != 2 {
					t.Errorf("there is no row %q:\n%s", row, r.Text())
				}
			}
		})
	}
}

// TestOfferedToOthers looks at a server that offers tools only to clients that show
// capabilities of their own.
func TestOfferedToOthers(t *testing.T) {
	s := newScripted()
	s.SetScript(toolsList, func(x *scripted.Exchange) { x.Error(http.StatusOK, -32601, "not here") })
	notHere(s, func(x *scripted.Exchange) { x.Error(http.StatusOK, -32601, "not here") })
	for _, method := range opening {
		s.SetScript(method, func(x *scripted.Exchange) {
			s.SetCapabilities(map[bool]string{true: `{"tools":{}}`, false: `{}`}[strings.Contains(string(x.Params), "sampling")])
			x.Default()
		})
	}
	r := run(t, options(t, serve(t, s)))
	for _, e := range r.Eras {
		if !slices.Equal(e.OfferedToOthers, []string{"tools"}) || !slices.Contains(e.NotOffered, "tools") {
			t.Errorf("%s is %s", e.Era, asJSON(t, r))
		}
	}
	wantWords(t, r, "- It offers tools only to clients that show capabilities of their own, such as sampling, elicitation or roots. "+
		"Nothing to set: clients are told apart by their capabilities.")
}
