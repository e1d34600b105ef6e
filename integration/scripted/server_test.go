package scripted_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

const tools = "tools/list"

func TestPagesHoldItemsAsSet(t *testing.T) {
	s := scripted.New()
	odd := `{ "name":"a" ,"x-n":9007199254740993,"y":1.0,"z":1e400,"u":"\/"}`
	s.SetList(tools, scripted.Page{odd}, scripted.Items(tools, "second", 2))
	h := fixture.NewHost(t, s)
	for _, revision := range []string{scripted.Modern, "2025-06-18"} {
		c := fixture.New(t, h.URL, revision, "")
		first := c.List(tools)
		if items := first.Items("tools"); !slices.Equal(items, []string{odd}) {
			t.Fatalf("first page has %q: %s", items, first.Body)
		}
		second := c.Call(tools, c.Params(`"cursor":`+string(first.Part("result", "nextCursor"))))
		if items := second.Items("tools"); !slices.Equal(items, scripted.Items(tools, "second", 2)) {
			t.Errorf("second page has %q", items)
		}
		if next := second.Part("result", "nextCursor"); next != nil {
			t.Errorf("last page has a cursor %s", next)
		}
		if code := c.Call(tools, c.Params(`"cursor":"bad"`)).ErrorCode(); code != -32602 {
			t.Errorf("bad cursor gave %d", code)
		}
	}
	if n := h.CountClients(tools); n != 6 {
		t.Errorf("log has %d list requests", n)
	}
}

func TestModernRequestsAreValidated(t *testing.T) {
	h := fixture.NewHost(t, scripted.New())
	c := fixture.NewModern(t, h.URL, "")
	params := c.Params("")
	for name, tc := range map[string]struct {
		params string
		header http.Header
		status int
		code   int
	}{
		"valid":            {params, http.Header{"Mcp-Method": {tools}}, 200, 0},
		"no meta":          {`{}`, http.Header{"Mcp-Method": {tools}}, 400, -32602},
		"other method":     {params, http.Header{"Mcp-Method": {"ping"}}, 400, -32020},
		"other version":    {params, http.Header{"Mcp-Method": {tools}, "Mcp-Protocol-Version": {"2099-01-01"}}, 400, -32020},
		"unknown revision": {strings.ReplaceAll(params, scripted.Modern, "2099-01-01"), http.Header{"Mcp-Method": {tools}, "Mcp-Protocol-Version": {"2099-01-01"}}, 400, -32022},
	} {
		a := c.Post(fixture.Message("1", tools, tc.params), tc.header)
		if a.Status != tc.status || a.ErrorCode() != tc.code {
			t.Errorf("%s: got %d, %d; want %d, %d", name, a.Status, a.ErrorCode(), tc.status, tc.code)
		}
	}
}

func TestSessionsLiveUntilTheyEnd(t *testing.T) {
	s := scripted.New()
	h := fixture.NewHost(t, s)
	c := fixture.NewLegacy(t, h.URL, scripted.LatestLegacy, "")
	if a := c.List(tools); a.Status != http.StatusOK {
		t.Fatalf("live session gave %d", a.Status)
	}
	if a := c.Delete(); a.Status != http.StatusNoContent {
		t.Errorf("DELETE gave %d", a.Status)
	}
	if a := c.List(tools); a.Status != http.StatusNotFound {
		t.Errorf("deleted session gave %d", a.Status)
	}
	forgotten := fixture.NewLegacy(t, h.URL, scripted.LatestLegacy, "")
	s.ForgetSessions()
	if a := forgotten.List(tools); a.Status != http.StatusNotFound {
		t.Errorf("forgotten session gave %d", a.Status)
	}
}

func TestNoticesReachChosenStreams(t *testing.T) {
	s := scripted.New()
	h := fixture.NewHost(t, s)
	legacy := fixture.NewLegacy(t, h.URL, scripted.LatestLegacy, "")
	get, listen := legacy.Get(""), fixture.NewModern(t, h.URL, "").Listen()
	fixture.Await(t, "both streams", func() bool { return s.Streams(scripted.Clients) == 2 })
	if n := s.Changed(scripted.Everybody, "resources/templates/list"); n != 2 {
		t.Fatalf("notice went to %d streams", n)
	}
	first := get.Await("notifications/resources/list_changed")
	if e := listen.Await("notifications/resources/list_changed"); !strings.Contains(e.Data, "subscriptionId") {
		t.Errorf("subscription's notice is %s", e.Data)
	}
	if n := s.Changed(scripted.Session(legacy.Session), tools); n != 1 {
		t.Errorf("notice for one session went to %d streams", n)
	}
	get.Await("notifications/tools/list_changed")
	if e, ok := legacy.Get(first.ID).Next(); !ok || !strings.Contains(e.Data, "tools") {
		t.Errorf("resumed stream began with %s", e.Data)
	}
	s.EndStreams(scripted.Everybody)
	listen.AwaitEnd()
	get.AwaitEnd()
}

func TestPrivateListsFollowAuthorization(t *testing.T) {
	s := scripted.New()
	s.SetList(tools, scripted.Items(tools, "everybody", 1))
	s.SetPrivateList("Bearer a", tools, scripted.Items(tools, "only a", 1))
	s.SetDoor(func(r *http.Request) int {
		if r.Header.Get("Authorization") == "Bearer bad" {
			return http.StatusUnauthorized
		}
		return 0
	})
	h := fixture.NewHost(t, s)
	for auth, mark := range map[string]string{"": "everybody", "Bearer a": "only a", "Bearer b": "everybody"} {
		if a := fixture.NewModern(t, h.URL, auth).List(tools); !strings.Contains(string(a.Body), mark) {
			t.Errorf("%q got %s", auth, a.Body)
		}
	}
	a := fixture.NewModern(t, h.URL, "Bearer bad").List(tools)
	if a.Status != http.StatusUnauthorized || a.Header.Get("WWW-Authenticate") == "" {
		t.Errorf("bad token gave %d, %v", a.Status, a.Header)
	}
}

func TestRequestsToTheClientAreAnswered(t *testing.T) {
	s := scripted.New()
	s.SetScript("tools/call", func(x *scripted.Exchange) {
		if m, ok := x.Ask("sampling/createMessage", `{}`); ok {
			x.Result(`{"got":` + string(m.Body) + `}`)
		}
	})
	c := fixture.NewLegacy(t, fixture.NewHost(t, s).URL, scripted.LatestLegacy, "")
	call := c.Stream(http.MethodPost, fixture.Message("1", "tools/call", `{"name":"x"}`), nil)
	ask := &fixture.Answer{Body: []byte(call.Await("sampling/createMessage").Data)}
	c.Post(`{"jsonrpc":"2.0","id":`+string(ask.Part("id"))+`,"result":{"text":"hello"}}`, nil)
	if e, ok := call.Next(); !ok || !strings.Contains(e.Data, `"hello"`) {
		t.Errorf("call was answered %q, %v", e.Data, ok)
	}
}

func TestFaultsMisbehave(t *testing.T) {
	s := scripted.New()
	s.SetList(tools, scripted.Items(tools, "good", 3))
	c := fixture.NewModern(t, fixture.NewHost(t, s).URL, "")
	closed := make(chan struct{})
	close(closed)
	good := c.List(tools).Items("tools")
	for name, tc := range map[string]struct {
		script scripted.Script
		wrong  func(a *fixture.Answer, err error) bool
	}{
		"garbage": {scripted.Garbage, func(a *fixture.Answer, err error) bool { return a.Part("result") == nil }},
		"html": {scripted.HTML, func(a *fixture.Answer, _ error) bool {
			return strings.HasPrefix(a.Header.Get("Content-Type"), "text/html")
		}},
		"half body":  {scripted.HalfBody, func(_ *fixture.Answer, err error) bool { return err != nil }},
		"cut":        {scripted.CutAfter(0), func(_ *fixture.Answer, err error) bool { return err != nil }},
		"wrong id":   {scripted.WrongID, func(a *fixture.Answer, _ error) bool { return string(a.Part("id")) == `"somebody-else"` }},
		"error":      {scripted.ErrorObject, func(a *fixture.Answer, _ error) bool { return a.Status == 200 && a.ErrorCode() == -32603 }},
		"503":        {scripted.ResultWith503, func(a *fixture.Answer, _ error) bool { return a.Status == 503 && a.Items("tools") != nil }},
		"429":        {scripted.TooManyRequests(7), func(a *fixture.Answer, _ error) bool { return a.Status == 429 && a.Header.Get("Retry-After") == "7" }},
		"endless":    {scripted.Endless, func(a *fixture.Answer, _ error) bool { return string(a.Part("result", "nextCursor")) == `"1"` }},
		"cycle":      {scripted.CursorCycle, func(a *fixture.Answer, _ error) bool { return string(a.Part("result", "nextCursor")) == `"a"` }},
		"oversized":  {scripted.Oversized(1 << 20), func(a *fixture.Answer, _ error) bool { return len(a.Body) > 1<<20 }},
		"empty":      {scripted.Empty, func(a *fixture.Answer, _ error) bool { return a.Status == 200 && len(a.Items("tools")) == 0 }},
		"duplicate":  {scripted.DuplicateNames, func(a *fixture.Answer, _ error) bool { return len(a.Items("tools")) == 2 }},
		"nameless":   {scripted.Nameless, func(a *fixture.Answer, _ error) bool { return !strings.Contains(a.Items("tools")[0], "name") }},
		"slow loris": {scripted.SlowLoris(closed), func(a *fixture.Answer, _ error) bool { return slices.Equal(a.Items("tools"), good) }},
		"hang":       {scripted.Hang(closed), func(a *fixture.Answer, _ error) bool { return slices.Equal(a.Items("tools"), good) }},
	} {
		s.SetScript(tools, tc.script)
		a, err := c.TryList(t.Context(), tools)
		if !tc.wrong(a, err) {
			t.Errorf("%s: got %v, %v", name, a, err)
		}
	}
	s.SetScript(tools, nil)
	s.SetSSE(true, `{"jsonrpc":"2.0","method":"notifications/message","params":{}}`)
	a := c.List(tools)
	if len(a.Items("tools")) != 3 || !strings.Contains(string(a.Body), "notifications/message") {
		t.Errorf("event stream is %s", a.Body)
	}
}
