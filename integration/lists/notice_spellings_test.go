package lists

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

const promptsChanged = "notifications/prompts/list_changed"

// noticeMessages are spellings of a notice that clients act on.
var noticeMessages = map[string]string{
	"plain":            `{"jsonrpc":"2.0","method":"notifications/prompts/list_changed"}`,
	"no jsonrpc":       `{"method":"notifications/prompts/list_changed"}`,
	"another jsonrpc":  `{"jsonrpc":"1.0","method":"notifications/prompts/list_changed"}`,
	"params null":      `{"jsonrpc":"2.0","method":"notifications/prompts/list_changed","params":null}`,
	"params array":     `{"jsonrpc":"2.0","method":"notifications/prompts/list_changed","params":[]}`,
	"params text":      `{"jsonrpc":"2.0","params":"x","method":"notifications/prompts/list_changed"}`,
	"_meta null":       `{"jsonrpc":"2.0","method":"notifications/prompts/list_changed","params":{"_meta":null}}`,
	"_meta array":      `{"jsonrpc":"2.0","method":"notifications/prompts/list_changed","params":{"_meta":[]}}`,
	"id null":          `{"jsonrpc":"2.0","id":null,"method":"notifications/prompts/list_changed"}`,
	"an id":            `{"jsonrpc":"2.0","id":"x","method":"notifications/prompts/list_changed"}`,
	"another member":   `{"jsonrpc":"2.0","x":{},"method":"notifications/prompts/list_changed"}`,
	"repeated jsonrpc": `{"jsonrpc":"2.0","jsonrpc":"2.0","method":"notifications/prompts/list_changed"}`,
	"first method":     `{"jsonrpc":"2.0","method":"notifications/prompts/list_changed","method":"x"}`,
	"last method":      `{"jsonrpc":"2.0","method":"x","method":"notifications/prompts/list_changed"}`,
	"repeated params":  `{"jsonrpc":"2.0","params":{},"method":"notifications/prompts/list_changed","params":{}}`,
	"another case":     `{"jsonrpc":"2.0","Method":"notifications/prompts/list_changed"}`,
	"escaped":          `{"jsonrpc":"2.0","m\u0065thod":"\u006eotifications\/prompts\/list_changed"}`,
	"an array":         `[{"jsonrpc":"2.0","method":"notifications/prompts/list_changed"}]`,
	"among others":     `[{"jsonrpc":"2.0","method":"x"},{"jsonrpc":"2.0","method":"notifications/prompts/list_changed"}]`,
	"long":             `{"jsonrpc":"2.0","params":{"x":"` + strings.Repeat("x", 200<<10) + `"},"method":"notifications/prompts/list_changed"}`,
}

// noticeEvents are ways to put it into a stream.
func noticeEvents() map[string]string {
	const plain = `{"jsonrpc":"2.0","method":"notifications/prompts/list_changed"}`
	events := map[string]string{
		"no space":      "data:" + plain + "\n\n",
		"CRLF":          "event: message\r\ndata: " + plain + "\r\n\r\n",
		"CR":            "event: message\rdata: " + plain + "\r\r",
		"CR in between": "data: {\"jsonrpc\":\"2.0\",\r\"method\":\"notifications/prompts/list_changed\"}\n\n",
		"another event": "id: 7\nevent: else\nretry: 100\ndata: " + plain + "\n\n",
		"several lines": "data: {\"jsonrpc\":\"2.0\",\ndata: \"method\":\ndata:\"notifications/prompts/list_changed\"}\n\n",
		"comments":      ": x\ndata: {\"jsonrpc\":\"2.0\",\n: \"\ndata:\"method\":\"notifications/prompts/list_changed\"}\n\n",
	}
	for name, message := range noticeMessages {
		events[name] = "data: " + message + "\n\n"
	}
	return events
}

// afterNotice is an event by which a client knows that all before has arrived.
const afterNotice = "\n\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/x-after\"}\n\n"

// TestFeedHearsEverySpelling announces a change to the feed alone, in every
// spelling: on its stream, and in an answer to a request of its own.
func TestFeedHearsEverySpelling(t *testing.T) {
	w := caddytest.NewWorld(t, "refresh 1ms")
	caddytest.EachEra(t, func(t *testing.T, revision string) {
		first := w.On(t).Warm(revision)
		feed := func(i scripted.StreamInfo) bool { return i.Feed && i.Modern == first.Modern() }
		for name, event := range noticeEvents() {
			t.Run("stream/"+name, func(t *testing.T) {
				w, mark := w.On(t), "stream "+name+revision
				c := w.Client(revision)
				w.Mark(scripted.PromptsList, mark)
				fixture.Await(t, "the feed's stream", func() bool { return w.SendBytes(feed, event) > 0 })
				c.AwaitList(scripted.PromptsList, "the change", func(a *fixture.Answer) bool { return caddytest.IsHit(a, scripted.PromptsList, mark) })
			})
			t.Run("answer/"+name, func(t *testing.T) {
				w, mark := w.On(t), "answer "+name+revision
				c := w.Client(revision)
				var sent atomic.Bool
				w.SetScript(scripted.ToolsList, func(x *scripted.Exchange) {
					if x.Feed && x.Modern == c.Modern() && !sent.Swap(true) {
						w.Mark(scripted.PromptsList, mark)
						x.Bytes(event)
					}
					x.Default()
				})
				w.Mark(scripted.ToolsList, mark)
				fixture.Await(t, "the feed's stream", func() bool { return w.Changed(feed, scripted.ToolsList) > 0 })
				c.AwaitList(scripted.PromptsList, "the change", func(a *fixture.Answer) bool { return caddytest.IsHit(a, scripted.PromptsList, mark) })
			})
		}
	})
}

// callTool calls a tool, for what comes with the answer.
func callTool(c *fixture.Raw) {
	c.Post(fixture.Message("1", "tools/call", c.Params(`"name":"item-0000"`)), http.Header{"Mcp-Method": {"tools/call"}, "Mcp-Name": {"item-0000"}})
}

// tellClient has a client told of new prompts, whatever way tell does it. From
// then on nobody gets the old ones.
func tellClient(t *testing.T, w *caddytest.World, revision string, tell func(w *caddytest.World, c *fixture.Raw)) {
	w, mark := w.On(t), t.Name()
	told, other := w.Client(revision), w.Client(revision)
	told.Settle(scripted.PromptsList)
	other.Settle(scripted.PromptsList)
	w.Mark(scripted.PromptsList, mark)
	tell(w, told)
	for who, client := range map[string]*fixture.Raw{"told": told, "other": other} {
		if a := client.List(scripted.PromptsList); caddytest.MarkOf(a, scripted.PromptsList) != mark {
			t.Errorf("the %s client got %s", who, a)
		}
	}
	other.AwaitList(scripted.PromptsList, "a hit again", func(a *fixture.Answer) bool { return caddytest.IsHit(a, scripted.PromptsList, mark) })
}

// TestEverySpellingTellsAClient announces a change to a client alone: on its
// stream, and in an answer to a request of its own.
func TestEverySpellingTellsAClient(t *testing.T) {
	w := caddytest.NewWorld(t, "refresh 1ms")
	caddytest.EachEra(t, func(t *testing.T, revision string) {
		w.On(t).Warm(revision)
		for name, event := range noticeEvents() {
			t.Run("stream/"+name, func(t *testing.T) {
				tellClient(t, w, revision, func(w *caddytest.World, c *fixture.Raw) {
					stream := c.Notices()
					fixture.Await(t, "the stream", func() bool { return w.SendBytes(caddytest.OfEra(c), event+afterNotice) > 0 })
					stream.Await("notifications/x-after")
					w.EndStreams(caddytest.OfEra(c))
					stream.AwaitEnd()
				})
			})
			t.Run("answer/"+name, func(t *testing.T) {
				tellClient(t, w, revision, func(w *caddytest.World, c *fixture.Raw) {
					w.SetScript("tools/call", func(x *scripted.Exchange) {
						x.Bytes(event)
						x.Result(`{"content":[]}`)
					})
					callTool(c)
				})
			})
		}
		for name, message := range noticeMessages {
			t.Run("JSON/"+name, func(t *testing.T) {
				tellClient(t, w, revision, func(w *caddytest.World, c *fixture.Raw) {
					w.SetScript("tools/call", func(x *scripted.Exchange) {
						x.Raw(http.StatusOK, "application/json", fmt.Sprintf("[%s,%s]", strings.Trim(message, "[]"), x.Envelope(`{"content":[]}`)))
					})
					callTool(c)
				})
			})
		}
	})
}

// TestMentionIsNoNotice has text in a result say what a notice says: the lists
// stay hits, also one that speaks of notices itself.
func TestMentionIsNoNotice(t *testing.T) {
	w := caddytest.NewWorld(t, "refresh 1ms")
	w.SetSSE(true)
	caddytest.EachEra(t, func(t *testing.T, revision string) {
		w := w.On(t)
		c, other := w.Warm(revision), w.Warm(revision) // the caller's own next list is another matter
		mark := "says " + promptsChanged + " and notifications/tools/list_changed " + revision
		w.Mark(scripted.ToolsList, mark)
		w.Changed(feedOf(c), scripted.ToolsList)
		c.AwaitList(scripted.ToolsList, "the list", func(a *fixture.Answer) bool { return caddytest.IsHit(a, scripted.ToolsList, mark) })
		w.SetScript("tools/call", func(x *scripted.Exchange) {
			x.Result(`{"method":"` + promptsChanged + `","content":[{"type":"text","text":"` + promptsChanged + `"}]}`)
		})
		for range 5 {
			c.Call("tools/call", c.Params(`"name":"item-0000"`))
			caddytest.WantHit(t, other.List(scripted.PromptsList), scripted.PromptsList, "v1")
			caddytest.WantHit(t, other.List(scripted.ToolsList), scripted.ToolsList, mark)
		}
	})
}

// TestCompressedNoticeTellsAClient compresses the stream of a call's answer,
// which nobody asked for.
func TestCompressedNoticeTellsAClient(t *testing.T) {
	w := caddytest.NewWorld(t, "refresh 1ms")
	caddytest.EachEra(t, func(t *testing.T, revision string) {
		w.On(t).Warm(revision)
		for _, coding := range []string{"br", "zstd", "deflate", "gzip, gzip", "x-unknown"} {
			t.Run(coding, func(t *testing.T) {
				tellClient(t, w, revision, func(w *caddytest.World, c *fixture.Raw) {
					w.SetScript("tools/call", func(x *scripted.Exchange) {
						x.W.Header().Set("Content-Encoding", coding)
						x.Bytes("\x0b\x00\x80 only a client that knows the coding reads this")
					})
					callTool(c)
				})
			})
		}
	})
}
