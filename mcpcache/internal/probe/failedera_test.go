package probe

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/integration/scripted"
	feeds "github.com/caddy-mcp/mcp-cache/mcpcache/internal/client"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// opening are the requests that a conversation of an era begins with.
var opening = map[revision.Era]string{revision.Modern: "server/discover", revision.Legacy: "initialize"}

func otherThan(era revision.Era) revision.Era {
	if era == revision.Modern {
		return revision.Legacy
	}
	return revision.Modern
}

// feedGivesUp reports whether a feed of that era takes it for one that is not offered, when
// it cannot open a session.
func feedGivesUp(t *testing.T, o Options, era revision.Era) bool {
	t.Helper()
	latest := map[revision.Era]revision.Revision{revision.Modern: revision.LatestModern, revision.Legacy: revision.LatestLegacy}
	way := new(http.Transport)
	defer way.CloseIdleConnections()
	s, err := feeds.New(feeds.Config{
		Revision: latest[era], URL: o.URL, Base: way, ReadSlot: feeds.NewReadSlot(), OnNotice: func(string) {},
		Policy: func() feeds.Policy { return feeds.Policy{MaxList: o.MaxList, MaxPages: o.MaxPages} },
	}).NewSession(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(time.Second)
	ctx, cancel := context.WithTimeout(t.Context(), o.Timeout)
	defer cancel()
	err = s.Open(ctx)
	_, unsupported := errors.AsType[*feeds.UnsupportedError](err)
	if err == nil {
		t.Error("a feed can open a session")
	}
	return unsupported
}

// TestOneEraFails has a server fail in one era, while it speaks the other: it can be used,
// and people and programs are told what is wrong with it, as are those who ask for that era.
func TestOneEraFails(t *testing.T) {
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	for name, c := range map[string]struct {
		script scripted.Script
		code   string
		says   string
	}{
		"500":       {scripted.Status(500), "server_error", "fails in the ERA era (HTTP 500), not in the OTHER one: look into the server's log"},
		"429":       {scripted.TooManyRequests(60), "busy", "fails in the ERA era (HTTP 429), not in the OTHER one: look into the server's log"},
		"401":       {scripted.Status(401), "unauthorized", "refuses this caller in the ERA era (HTTP 401), not in the OTHER one: give the credentials that it wants with --header"},
		"hang":      {scripted.Hang(release), "timeout", "fails in the ERA era (no answer within 200ms), not in the OTHER one: look into the server's log"},
		"page":      {scripted.HTML, "not_mcp", "fails in the ERA era (it answers with a web page), not in the OTHER one: look into the server's log"},
		"empty":     {func(x *scripted.Exchange) { x.Raw(200, "application/json", "") }, "not_mcp", "fails in the ERA era (it answers with nothing), not in the OTHER one: look into the server's log"},
		"cut":       {func(*scripted.Exchange) { panic(http.ErrAbortHandler) }, "cut", "fails in the ERA era (the connection was cut), not in the OTHER one: look into the server's log"},
		"nameless":  {func(x *scripted.Exchange) { x.ID = nil; x.Error(200, -32603, "no") }, "error", "fails in the ERA era (error -32603: no), not in the OTHER one: look into the server's log"},
		"500 error": {func(x *scripted.Exchange) { x.Error(500, -32601, "no") }, "server_error", "fails in the ERA era (error -32601: no), not in the OTHER one: look into the server's log"},
	} {
		for era, method := range opening {
			if name == "cut" && era == revision.Modern {
				continue // TestServerThatEndsOverDiscover
			}
			t.Run(name+" "+era.String(), func(t *testing.T) {
				t.Parallel()
				s := newScripted()
				s.SetScript(method, c.script)
				o := options(t, serve(t, s))
				if name == "hang" {
					o.Timeout = 200 * time.Millisecond
				}
				says := strings.NewReplacer("ERA", era.String(), "OTHER", otherThan(era).String()).Replace(c.says)
				r := run(t, o)
				if !r.Usable || r.Trouble != nil || len(r.FailedEras) != 1 || r.FailedEras[0].Era != era.String() || r.FailedEras[0].Code != c.code {
					t.Errorf("the report is %s", asJSON(t, r))
				}
				text := strings.Join(strings.Fields(r.Text()), " ")
				if !strings.Contains(text, "To know - It "+says+". Nothing of that era is cached until it answers.") {
					t.Errorf("it does not say %q:\n%s", says, r.Text())
				}
				if open := strings.Contains(text, "It asks for no credentials in the "+otherThan(era).String()+" era. "); open != (name == "401") {
					t.Errorf("about credentials it says\n%s", r.Text())
				}
				o.Eras = []revision.Era{era}
				wantTrouble(t, o, c.code, "URL "+says)
				if feedGivesUp(t, o, era) {
					t.Error("a feed takes the era for one that is not offered")
				}
			})
		}
	}
}

// TestOneEraIsNotSpoken has a server answer in ways that the cache's feeds take for an era
// that is not offered.
func TestOneEraIsNotSpoken(t *testing.T) {
	for name, script := range map[string]scripted.Script{
		"404":       scripted.Status(404),
		"400":       scripted.Status(400),
		"an error":  func(x *scripted.Exchange) { x.Error(200, -32601, "no") },
		"400 error": func(x *scripted.Exchange) { x.ID = nil; x.Error(400, -32000, "no") },
	} {
		for era, method := range opening {
			t.Run(name+" "+era.String(), func(t *testing.T) {
				t.Parallel()
				s := newScripted()
				s.SetScript(method, script)
				o := options(t, serve(t, s))
				if r := run(t, o); !r.Usable || len(r.FailedEras) > 0 || strings.Contains(r.Text(), "in the "+era.String()+" era") {
					t.Errorf("the report is %s", asJSON(t, r))
				}
				o.Eras = []revision.Era{era}
				wantTrouble(t, o, "era", "URL speaks the "+otherThan(era).String()+" era only, not the "+era.String()+" one: check it without --era")
				if !feedGivesUp(t, o, era) {
					t.Error("a feed does not take the era for one that is not offered")
				}
			})
		}
	}
}

// TestTheEraThatFailsSaysMore has a server of the modern era only, which fails: what it
// makes of the other era is not the trouble.
func TestTheEraThatFailsSaysMore(t *testing.T) {
	s := newScripted()
	s.SetRevisions(scripted.Modern)
	s.SetScript("server/discover", scripted.Status(500))
	wantTrouble(t, options(t, serve(t, s)), "server_error", "URL fails (HTTP 500): look into the server's log")
}

// TestServerThatEndsOverDiscover looks at a server of the legacy era that exits when it is
// asked in the modern one, without a word and for good.
func TestServerThatEndsOverDiscover(t *testing.T) {
	s := newScripted()
	s.SetDoor(needsCredentials)
	var host *httptest.Server
	url := listenTo(t, s, func(h *httptest.Server) {
		host = h
		h.Start()
	})
	s.SetScript("server/discover", func(*scripted.Exchange) {
		host.Listener.Close()
		panic(http.ErrAbortHandler)
	})
	r := run(t, options(t, url, callerA))
	if !r.Usable || r.Trouble != nil || len(r.FailedEras) > 0 || !r.Closed || len(r.Eras) != 1 || !r.Access.Needed || list(t, r, "tools").Anonymous != nil {
		t.Errorf("the report is %s", asJSON(t, r))
	}
	wantWords(t, r, " (legacy) modern not offered (the connection was closed at server/discover) lets in ")
	wantWords(t, r, "- The connection was closed at server/discover, so the modern era counts as not offered. "+
		"Some servers end over a request that they do not know; with this option the cache never sends it. set: eras legacy")
	if !strings.Contains(r.Caddyfile, "\t\teras legacy\n") {
		t.Errorf("the Caddyfile is\n%s", r.Caddyfile)
	}
}
