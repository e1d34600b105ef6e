package views

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// passedOn are params with which no list is answered from the cache.
func (c *caller) passedOn(members string) string {
	if c.Modern() {
		return strings.Replace(c.Params(members), `"_meta":{`, `"_meta":{"example.com/x":1,`, 1)
	}
	if members != "" {
		members += ","
	}
	return c.Params(members + `"_meta":{"example.com/x":1}`)
}

// ask lists by those params, with more headers.
func (c *caller) ask(what, method, params string, more http.Header) *fixture.Answer {
	c.v.t.Helper()
	h := mirrored(c.Raw, method, "")
	h.Del("Mcp-Name")
	if h == nil {
		h = make(http.Header)
	}
	maps.Copy(h, more)
	return c.send(what+" of "+method, http.MethodPost, fixture.Message(c.NextID(), method, params), h)
}

// hit lists until the answer comes from the cache, in that coding.
func (c *caller) hit(what, method, coding string, more http.Header) *fixture.Answer {
	c.v.t.Helper()
	var a *fixture.Answer
	if !fixture.Poll(fixture.Deadline, time.Millisecond, func() bool {
		a = c.ask(what, method, c.Params(""), more)
		return a.CacheStatus().Hit && a.Header.Get("Content-Encoding") == coding
	}) {
		c.v.t.Fatalf("%s of %s is %s", what, method, a)
	}
	return fixture.Decoded(c.v.t, a)
}

var (
	jsonAlone     = http.Header{"Accept": {"application/json"}}
	streamAlone   = http.Header{"Accept": {"text/event-stream"}}
	ratherStreams = http.Header{"Accept": {"application/json;q=0.1, text/event-stream"}}
)

// listForms are how a list is asked for, by more headers.
var listForms = map[string]http.Header{
	"": nil, ", JSON alone": jsonAlone, ", streams alone": streamAlone, ", rather streams": ratherStreams,
	", gzip": {"Accept-Encoding": {"gzip"}}, ", a range": {"Range": {"bytes=0-400"}}, ", resumed": {"Last-Event-Id": {"0"}},
}

// list lists everything in all forms, as somebody of whom things are hidden and as
// an admin.
func (v *veil) list(revision string) {
	v.t.Helper()
	for _, c := range []*caller{v.caller(revision, false), v.caller(revision, true)} {
		for _, method := range scripted.ListMethods() {
			c.ask("a first list", method, c.Params(""), nil)
			for form, more := range listForms {
				c.ask("a list that is passed on"+form, method, c.passedOn(""), more)
				c.ask("a list"+form, method, c.Params(""), more)
			}
			c.wantAll("a list page by page", method, c.walk(method))
			c.batch(method)
			c.wantAll("a hit", method, c.hit("a hit", method, "", nil).Body)
			c.wantAll("a hit as a stream", method, c.hit("a hit as a stream", method, "", ratherStreams).Body)
			for _, coding := range []string{"gzip", "zstd"} {
				c.wantAll(coding, method, c.hit(coding, method, coding, http.Header{"Accept-Encoding": {coding}}).Body)
			}
		}
		if c.Modern() {
			c.ask("discovery", "server/discover", c.Params(""), nil)
		}
	}
}

// wantAll fails unless a list has everything that the caller may see.
func (c *caller) wantAll(what, method string, body []byte) {
	c.v.t.Helper()
	for _, name := range []string{"open-1", "open-3", "open-6"} {
		if !strings.Contains(string(body), name) {
			c.v.t.Errorf("%s of %s has no %s: %.300s", what, method, name, body)
		}
	}
	if c.admin && strings.Count(string(body), hushed+"-2") == 0 {
		c.v.t.Errorf("an admin's %s of %s has nothing hushed: %.300s", what, method, body)
	}
}

var nextCursor = regexp.MustCompile(`"nextCursor"\s*:\s*("(?:[^"\\]|\\.)*")`)

// walk lists page by page, as the server cuts them, and returns all of that.
func (c *caller) walk(method string) (all []byte) {
	c.v.t.Helper()
	params := c.passedOn("")
	for range 5 {
		a := c.ask("a page", method, params, nil)
		all = append(all, a.Body...)
		next := nextCursor.FindSubmatch(a.Message())
		if next == nil {
			break
		}
		params = c.Params(`"cursor":` + string(next[1]))
	}
	return all
}

// batch lists in batches. Servers of other revisions than 2025-03-26 refuse those.
func (c *caller) batch(method string) {
	c.v.t.Helper()
	list, ping := fixture.Message("1", method, c.Params("")), fixture.Message("2", "ping", c.Params(""))
	for _, body := range []string{"[" + list + "," + ping + "]", "[" + ping + ",\n" + strings.Replace(list, `"id":1`, `"id":3`, 1) + "," + list + "]", "[" + list + "]"} {
		a := c.send("a batch of "+method, http.MethodPost, body, nil)
		if c.v.batches && c.Revision == "2025-03-26" && !strings.Contains(string(a.Body), "open-1") {
			c.v.t.Errorf("a batch of %s gave %s", method, a)
		}
	}
}

var eventID = regexp.MustCompile(`(?m)^id: ?(.*)$`)

// resume has answers repeated on a GET stream.
func (v *veil) resume(revision string) {
	v.t.Helper()
	c := v.caller(revision, false)
	for _, method := range scripted.ListMethods() {
		a := c.ask("a list to be resumed", method, c.passedOn(""), nil)
		ids := eventID.FindAllStringSubmatch(string(a.Body), -1)
		if len(ids) == 0 {
			v.t.Errorf("%s has no event with an id: %s", method, a)
			continue
		}
		last := ids[len(ids)-1][1]
		before := eventBefore(last)
		if len(ids) > 1 {
			before = ids[len(ids)-2][1]
		}
		if before == "" {
			continue // there is nothing before the first event at that revision
		}
		if all := c.replayed(before); !strings.Contains(all, "open-1") {
			v.t.Errorf("resumed after %q, before %q, a stream has %.300q", before, last, all)
		}
	}
}

// eventBefore returns the id before one that ends with a number, or "".
func eventBefore(id string) string {
	i := len(id)
	for i > 0 && '0' <= id[i-1] && id[i-1] <= '9' {
		i--
	}
	n, err := strconv.Atoi(id[i:])
	if err != nil || n == 0 {
		return ""
	}
	return id[:i] + strconv.Itoa(n-1)
}

// replayed returns what a GET stream repeats after an event, up to the first thing
// that everybody may see.
func (c *caller) replayed(last string) string {
	c.v.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), fixture.Deadline)
	defer cancel()
	res, err := c.Open(ctx, http.MethodGet, http.NoBody, http.Header{"Last-Event-Id": {last}})
	if err != nil {
		c.v.t.Fatal(err)
	}
	defer res.Body.Close()
	var all []byte
	for part := make([]byte, 4<<10); !strings.Contains(string(all), "open-1") || !strings.HasSuffix(string(all), "\n\n"); {
		n, err := res.Body.Read(part)
		all = append(all, part[:n]...)
		if err != nil {
			break
		}
	}
	c.wantUnseen("a resumed stream", &fixture.Answer{Status: res.StatusCode, Header: res.Header, Body: all})
	return string(all)
}

// change has the server announce more tools, of which some are hidden.
func (v *veil) change(revision string) {
	v.t.Helper()
	c := v.caller(revision, false)
	var stream *fixture.Stream
	if v.resumes && !c.Modern() {
		stream = c.Get("")
	}
	shown := fmt.Sprintf("open-%d", v.host.BytesRead()) // which no other test has added
	v.add(hushed + shown)
	v.add(shown)
	fixture.Await(v.t, shown, func() bool {
		a := c.ask("a list after a change", scripted.ToolsList, c.Params(""), nil)
		c.ask("a list that is passed on after a change", scripted.ToolsList, c.passedOn(""), nil)
		return strings.Contains(string(a.Body), shown)
	})
	if stream != nil {
		e := stream.Await("notifications/tools/list_changed")
		c.wantUnseen("a notice", &fixture.Answer{Header: stream.Response.Header, Body: []byte(e.Data)})
		stream.Close()
	}
}
