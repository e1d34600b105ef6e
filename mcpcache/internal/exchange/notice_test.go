package exchange

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

func updateOf(uri string) string {
	return fmt.Sprintf("event: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications\\/resources\\/updated\",\"params\":{\"uri\":%q}}\n\n", uri)
}

func TestUpdatedURIs(t *testing.T) {
	many := strings.Repeat(updateOf("test://a"), maxNamed)
	update := func(rest string) string {
		return `data: {"jsonrpc":"2.0","method":"notifications/resources/updated",` + rest + "}\n\n"
	}
	for name, c := range map[string]struct {
		events string
		want   []string
	}{
		"one":              {updateOf("test://a"), []string{"test://a"}},
		"two":              {updateOf("test://a") + updateOf("test://b"), []string{"test://a", "test://b"}},
		"escaped":          {update(`"params":{"uri":"a:\u002fb"}`), []string{"a:/b"}},
		"among others":     {"id: 1\ndata:\n\n" + noticeOf("tools/list_changed") + updateOf("a:b"), []string{"a:b"}},
		"only mentioned":   {"data: {\"result\":\"notifications/resources/updated\"}\n\n", nil},
		"no URI":           {update(`"params":{}`), nil},
		"no text":          {update(`"params":{"uri":1}`), nil},
		"two URIs":         {update(`"params":{"uri":"a:b","uri":"a:c"}`), nil},
		"in another case":  {update(`"params":{"uri":"a:b","URI":"a:c"}`), nil},
		"two params":       {update(`"params":{"uri":"a:b"},"params":{"uri":"a:c"}`), nil},
		"two methods":      {update(`"method":"x","params":{"uri":"a:b"}`), nil},
		"not JSON":         {"data: {\"method\":\"notifications/resources/updated\"\n\n", nil},
		"a batch":          {"data: [{\"method\":\"notifications/resources/updated\",\"params\":{\"uri\":\"a:b\"}}]\n\n", nil},
		"as many as named": {many, slices.Repeat([]string{"test://a"}, maxNamed)},
		"one more":         {many + updateOf("test://b"), slices.Repeat([]string{"test://a"}, maxNamed)},
	} {
		t.Run(name, func(t *testing.T) {
			if uris := updatedURIs([]byte(c.events)); !slices.Equal(uris, c.want) {
				t.Errorf("got %q, want %q", uris, c.want)
			}
		})
	}
}

// TestUpdateOfOneResource sends notices in pieces: in one piece a notice
// concerns its resource, otherwise all resources.
func TestUpdateOfOneResource(t *testing.T) {
	read := func(uri string) *http.Request {
		return withName(modernRequest("resources/read", fmt.Sprintf(`"uri":%q`, uri)), uri)
	}
	whole := updateOf("test://a")
	for name, c := range map[string]struct {
		pieces []string
		all    bool
	}{
		"one piece":            {[]string{whole}, false},
		"after another":        {[]string{noticeOf("progress"), whole}, false},
		"lines end otherwise":  {[]string{strings.ReplaceAll(whole, "\n", "\r\n")}, false},
		"split in the method":  {[]string{whole[:40], whole[40:]}, true},
		"split before the end": {[]string{whole[:len(whole)-1], "\n"}, true},
		"one more than named":  {[]string{strings.Repeat(whole, maxNamed+1)}, true},
		"another method too":   {[]string{strings.Replace(whole, `,"params"`, `,"method":"x","params"`, 1)}, true},
		"two URIs":             {[]string{strings.Replace(whole, `{"uri"`, `{"URI":"test://b","uri"`, 1)}, true},
		"an array":             {[]string{strings.Replace(strings.Replace(whole, "{", "[{", 1), "}}", "}}]", 1)}, true},
		"begun earlier":        {[]string{"event: message\n", strings.TrimPrefix(whole, "event: message\n")}, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFace(t, config{Gate: duration(0)})
			f.letIn(t, "Bearer a")
			for _, uri := range []string{"test://a", "test://b"} {
				f.as(t, "Bearer a", read(uri), resultOf(`"contents":[],"ttlMs":60000`))
			}
			f.as(t, "Bearer b", modernRequest("subscriptions/listen", ""), func(w http.ResponseWriter, _ *http.Request) error {
				w.Header().Set("Content-Type", "text/event-stream")
				for _, piece := range c.pieces {
					if _, err := io.WriteString(w, piece); err != nil {
						return err
					}
				}
				return nil
			})
			for uri, outdated := range map[string]bool{"test://a": true, "test://b": c.all} {
				want := http.StatusOK
				if outdated {
					want = http.StatusTeapot
				}
				if w := f.as(t, "Bearer a", read(uri), refusing); w.Code != want {
					t.Errorf("%s gave %d, want %d", uri, w.Code, want)
				}
			}
		})
	}
}

// TestWhatCouldBeANotice looks at answers of other types and codings. What
// cannot be read could be any notice.
func TestWhatCouldBeANotice(t *testing.T) {
	const message = `{"method":"notifications/tools/list_changed"}`
	for name, c := range map[string]struct {
		http, contentType, encoding, body string
		tools, everything                 bool
	}{
		"an array":              {http.MethodPost, "application/json", "", "[" + message + "]", true, false},
		"one message":           {http.MethodPost, "application/json", "identity", message, true, false},
		"a mention":             {http.MethodPost, "application/json", "", `{"result":` + message + `}`, false, false},
		"a mention in an event": {http.MethodPost, "text/event-stream", "", `data: {"result":` + message + "}\n\n", false, false},
		"a page":                {http.MethodPost, "text/html", "", message, false, false},
		"GET of anything":       {http.MethodGet, "text/plain", "", "data: " + message + "\n\n", true, false},
		"a stream with gzip":    {http.MethodPost, "text/event-stream", "gzip", "\x1f\x8b", true, true},
		"GET with br":           {http.MethodGet, "text/event-stream", "br", "\x0b", true, true},
		"unknown coding":        {http.MethodPost, "text/event-stream", "identity, x-new", "x", true, true},
		"JSON with zstd":        {http.MethodPost, "application/json", "zstd", "x", false, false}, // it is the answer
		"another charset":       {http.MethodPost, "text/event-stream; charset=utf-16", "", "\xfe\xff", true, true},
		"a page with gzip":      {http.MethodPost, "text/html", "gzip", "\x1f\x8b", false, false},
		"nothing with gzip":     {http.MethodGet, "text/event-stream", "gzip", "", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFace(t, config{Gate: duration(0)})
			all := revision.SetOf(revision.Tools, revision.Prompts, revision.Resources, revision.ResourceTemplates, revision.Reads)
			marks := make(map[revision.Kind]cache.Mark)
			for k := range revision.Kind(revision.NumKinds) {
				marks[k] = f.backend.Cache.Mark(k)
			}
			f.upstreamIs(func(w http.ResponseWriter, _ *http.Request) error {
				w.Header().Set("Content-Type", c.contentType)
				if c.encoding != "" {
					w.Header().Set("Content-Encoding", c.encoding)
				}
				_, err := io.WriteString(w, c.body)
				return err
			})
			r := modernRequest("tools/call", "")
			r.Method = c.http
			f.serve(t, r)
			for k, mark := range marks {
				want := c.everything && all.Has(k) || c.tools && k == revision.Tools
				if got := !f.backend.Cache.Current(k, mark); got != want {
					t.Errorf("%s: changed %v, want %v", k, got, want)
				}
			}
		})
	}
}
