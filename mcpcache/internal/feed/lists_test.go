package feed

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

const list = "tools/list"

func TestPagesAreJoined(t *testing.T) {
	for name, r := range both {
		t.Run(name, func(t *testing.T) {
			s := newServer(r)
			s.Set(revision.Tools, "a", "b", "c", "d", "e")
			s.Set(revision.Prompts)
			s.PageSize = 2
			run(t, s, func(w *world) {
				w.wantState(w.start(r), Ready)
				e := w.wantItems(r, revision.Tools, "a", "b", "c", "d", "e")
				if got, want := string(e.Body.Bytes), `"tools":[{"name":"a"},{"name":"b"},{"name":"c"},{"name":"d"},{"name":"e"}]}}`; got != want {
					t.Errorf("got %s, want %s", got, want)
				}
				w.wantItems(r, revision.Prompts)
				w.wantItems(r, revision.ResourceTemplates, "resource_templates_a", "resource_templates_b")
				w.wantCalls(list, 3)
			})
		})
	}
}

// A joined list is fresh for as long as the page with the shortest life. One
// without ttlMs has the operator's.
func TestPagesOfDifferentLives(t *testing.T) {
	for first, lives := range map[string]map[string]time.Duration{
		`,"ttlMs":60000`:  {`,"ttlMs":50000`: 50 * time.Second, `,"ttlMs":70000`: time.Minute, "": time.Minute, `,"ttlMs":0`: 0},
		`,"ttlMs":900000`: {"": 5 * time.Minute, `,"ttlMs":800000`: 800 * time.Second},
		"":                {"": 5 * time.Minute, `,"ttlMs":900000`: 5 * time.Minute, `,"ttlMs":60000`: time.Minute},
	} {
		for second, want := range lives {
			s := newServer(modern)
			s.On(list, func(w http.ResponseWriter, _ *http.Request, c call) error {
				if c.Params.Cursor != nil {
					return result(w, c, `{"tools":[{"name":"b"}]`+second+`}`)
				}
				return result(w, c, `{"tools":[{"name":"a"}],"nextCursor":"2"`+first+`}`)
			})
			run(t, s, func(w *world) {
				w.start(modern)
				if e := w.wantItems(modern, revision.Tools, "a", "b"); e.Lifetime != want {
					t.Errorf("pages with %q and %q are fresh for %v, want %v", first, second, e.Lifetime, want)
				}
			})
		}
	}
}

// pages answers with pages of one tool, for ever or for so many pages.
func pages(n int) script {
	return func(w http.ResponseWriter, _ *http.Request, c call) error {
		page := 0
		if c.Params.Cursor != nil {
			_, _ = fmt.Sscan(*c.Params.Cursor, &page)
		}
		next := ""
		if n == 0 || page+1 < n {
			next = fmt.Sprintf(`,"nextCursor":"%d"`, page+1)
		}
		return result(w, c, fmt.Sprintf(`{"tools":[{"name":"t%d"}]%s}`, page, next))
	}
}

// A list that is refused leaves the one from before, and the reason in the
// state and in the log, once.
func TestListsThatAreRefused(t *testing.T) {
	big := `{"tools":[{"name":"` + strings.Repeat("x", 10_000-len(`{"tools":[{"name":""}]}`)) + `"}]}`
	sized := func(w http.ResponseWriter, _ *http.Request, c call) error { return result(w, c, big) }
	for name, tt := range map[string]struct {
		answer script
		policy func(p *Policy)
		want   error // nil: any; errNone: it is not refused
	}{
		"as many pages as may be": {pages(5), func(p *Policy) { p.MaxPages = 5 }, errNone},
		"one page more":           {pages(6), func(p *Policy) { p.MaxPages = 5 }, message.ErrTooManyPages},
		"endless":                 {pages(0), func(p *Policy) { p.MaxPages = 50 }, message.ErrTooManyPages},
		"as large as may be":      {sized, func(p *Policy) { p.MaxList = 10_000 }, errNone},
		"one byte larger":         {sized, func(p *Policy) { p.MaxList = 9_999 }, message.ErrListTooLarge},
		"pages, one byte larger":  {pages(400), func(p *Policy) { p.MaxList = 10_000 }, message.ErrListTooLarge},
		"endless message":         {endless, func(p *Policy) { p.MaxList = 10_000 }, client.ErrTooLarge},
		"endless event":           {endlessEvent, func(p *Policy) { p.MaxList = 10_000 }, client.ErrTooLarge},
		"cursor cycle": {func(w http.ResponseWriter, _ *http.Request, c call) error {
			next := "a"
			if c.Params.Cursor != nil && *c.Params.Cursor == "a" {
				next = "b"
			}
			return result(w, c, `{"tools":[],"nextCursor":"`+next+`"}`)
		}, nil, message.ErrCursorCycle},
		"same name twice": {gives(`{"tools":[{"name":"a"},{"name":"a"}]}`), nil, errNone},
		"same name on a page": {func(w http.ResponseWriter, _ *http.Request, c call) error {
			if c.Params.Cursor == nil {
				return result(w, c, `{"tools":[{"name":"a"}],"nextCursor":"x"}`)
			}
			return result(w, c, `{"tools":[{"name":"a"}]}`)
		}, nil, errNone},
		"no name":              {gives(`{"tools":[{"title":"a"}]}`), nil, message.ErrInvalid},
		"no list":              {gives(`{"prompts":[]}`), nil, message.ErrInvalid},
		"not complete":         {gives(`{"resultType":"input_required","tools":[]}`), nil, message.ErrNotComplete},
		"repeated member":      {gives(`{"tools":[],"tools":[{"name":"a"}]}`), nil, message.ErrAmbiguous},
		"error object":         {failure(200, -32000, ""), nil, nil},
		"method gone":          {failure(200, -32601, ""), nil, nil},
		"wrong id":             {answerTo(`"other"`), nil, nil},
		"no id":                {answerTo(`null`), nil, nil},
		"no id, but much else": {raw(`{"jsonrpc":"2.0","id":null,"result":{"tools":"` + strings.Repeat("x", 10_000) + `"}}`), nil, nil},
		"no answer":            {status(202), nil, nil},
		"half an answer":       {raw(`{"jsonrpc":"2.0","id":1,"result":{"tools":[`), nil, nil},
		"HTML":                 {status(200), nil, nil},
		"503 with a result": {func(w http.ResponseWriter, _ *http.Request, c call) error {
			return reply(w, 503, "application/json", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"tools":[]}}`, c.ID))
		}, nil, nil},
		"refused": {refuse, nil, nil},
		"aborted": {func(http.ResponseWriter, *http.Request, call) error { panic(http.ErrAbortHandler) }, nil, http.ErrAbortHandler},
		"second page fails": {func(w http.ResponseWriter, r *http.Request, c call) error {
			if c.Params.Cursor != nil {
				return status(502)(w, r, c)
			}
			return result(w, c, `{"tools":[{"name":"new"}],"nextCursor":"x"}`)
		}, nil, nil},
	} {
		for era, r := range both {
			t.Run(name+" "+era, func(t *testing.T) {
				s := newServer(r)
				run(t, s, func(w *world) {
					if tt.policy != nil {
						w.set(tt.policy)
					}
					f := w.start(r)
					w.wantState(f, Ready)
					s.On(list, tt.answer)
					w.after(w.policy.Refresh)
					_, err := f.List(revision.Tools).Refresh(w.Context())
					w.after(0)
					if tt.want == errNone {
						if err != nil {
							t.Errorf("got error %v", err)
						}
						w.wantState(f, Ready)
						return
					}
					if err == nil || tt.want != nil && !errors.Is(err, tt.want) {
						t.Errorf("got error %v, want %v", err, tt.want)
					}
					w.wantItems(r, revision.Tools, "tools_a", "tools_b")
					w.after(3 * time.Minute)
					w.wantItems(r, revision.Tools, "tools_a", "tools_b")
					w.wantState(f, Degraded)
					if failure := f.Status().Failure; failure.Stage != "tools" || len(failure.Err.Error()) > 1000 {
						t.Errorf("the failure is %+v", failure)
					}
					if got := w.states(r); len(got) != 3 || got[2] != Degraded {
						t.Errorf("the log says %v, want degraded once, at the end", got)
					}
					s.On(list, nil)
					w.after(time.Minute)
					w.wantState(f, Ready)
				})
			})
		}
	}
}

var errNone = errors.New("it is not refused")

func endless(w http.ResponseWriter, _ *http.Request, _ call) error {
	w.Header().Set("Content-Type", "application/json")
	for {
		if _, err := w.Write([]byte(strings.Repeat(" ", 4000))); err != nil {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func endlessEvent(w http.ResponseWriter, r *http.Request, _ call) error {
	w.Header().Set("Content-Type", "text/event-stream")
	for r.Context().Err() == nil {
		if _, err := w.Write([]byte("data: " + strings.Repeat("x", 4000) + "\n")); err != nil {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
	return r.Context().Err()
}

// An answer that takes its time is given up, with the reason.
func TestPageTimeout(t *testing.T) {
	for name, answer := range map[string]script{"no answer": hang, "no end": func(w http.ResponseWriter, r *http.Request, c call) error {
		if err := reply(w, http.StatusOK, "application/json", `{"jsonrpc":`); err != nil {
			return err
		}
		return hang(w, r, c)
	}} {
		t.Run(name, func(t *testing.T) {
			s := newServer(modern)
			s.On(list, answer)
			run(t, s, func(w *world) {
				f := w.start(modern)
				w.after(client.RequestTimeout - time.Second)
				w.wantState(f, Hydrating)
				w.after(2 * time.Second)
				w.wantState(f, Degraded)
				if err := f.Status().Failure.Err; !strings.Contains(err.Error(), "deadline exceeded") {
					t.Errorf("the failure is %v", err)
				}
				w.wantItems(modern, revision.Prompts, "prompts_a", "prompts_b")
			})
		})
	}
}

// A server that advertises resources but has no templates is well.
func TestMethodThatIsNotOffered(t *testing.T) {
	for name, answer := range map[string]script{"200": failure(200, -32601, ""), "404": failure(404, -32601, "")} {
		for era, r := range both {
			t.Run(name+" "+era, func(t *testing.T) {
				s := newServer(r)
				s.On(revision.ResourceTemplates.Method(), answer)
				run(t, s, func(w *world) {
					w.wantState(w.start(r), Ready)
					w.wantCalls(revision.ResourceTemplates.Method(), 1)
					if w.cache.Pinned(r, revision.ResourceTemplates) != nil {
						t.Error("templates are pinned")
					}
				})
			})
		}
	}
}

func TestKindsThatAreNotOffered(t *testing.T) {
	s := newServer(modern)
	s.Kinds = []revision.Kind{revision.Tools}
	s.On("prompts/list", status(500))
	run(t, s, func(w *world) {
		w.set(func(p *Policy) { p.Kinds = revision.SetOf(revision.Tools, revision.Prompts) })
		f := w.start(modern)
		w.wantState(f, Ready)
		w.wantItems(modern, revision.Tools, "tools_a", "tools_b")
		w.wantCalls("prompts/list", 1) // once, to make sure
		w.wantCalls("resources/list", 0)
		w.wantCalls("server/discover", 1) // to connect, not to keep
		if f.List(revision.Prompts).Demand(nil) != nil || f.List(revision.Discover).Demand(nil) != nil {
			t.Error("a kind that is not kept can be demanded")
		}
		if got := f.Status().NotOffered; !slices.Equal(got, []revision.Kind{revision.Prompts}) {
			t.Errorf("%v are said not to be offered", got)
		}
		w.set(func(*Policy) {})
		w.after(time.Hour)
		w.wantCalls("prompts/list", 1)
	})
}
