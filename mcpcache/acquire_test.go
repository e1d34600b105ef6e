package mcpcache

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/version"
)

// What may change while a program goes on keeps its lists; of other upstreams everything counts.
func TestLimitsOfAProgramKeepItsLists(t *testing.T) {
	key := func(transport string) string {
		h := &Handler{UpstreamRaw: json.RawMessage(`{"handler":"reverse_proxy","transport":` + transport + `}`)}
		var err error
		if h.settings, err = h.newSettings(); err != nil {
			t.Fatal(err)
		}
		key, err := h.feedKey(nil)
		if err != nil {
			t.Fatal(err)
		}
		return string(key)
	}
	program := func(option string) string { return fmt.Sprintf(`{"protocol":"stdio","command":"npx"%s}`, option) }
	for _, option := range []string{"idle", "max", "memory", "start_timeout", "stop_grace"} {
		if key(program(`,"`+option+`":7`)) != key(program("")) {
			t.Errorf("another %s is another server", option)
		}
	}
	if key(program(`,"lazy":false`)) != key(program("")) {
		t.Error("lazy makes it another server")
	}
	for _, other := range []string{program(`,"args":["x"]`), program(`,"share":true`), program(`,"env":{"idle":"1"}`)} {
		if key(other) == key(program("")) {
			t.Errorf("%s is the same server", other)
		}
	}
	if key(`{"protocol":"http","max":1}`) == key(`{"protocol":"http"}`) {
		t.Error("an option of another transport does not count")
	}
}

// TestFeedIsNamedInPartition has callers told apart by their program: one that names none does not get what the
// server shows the feed, which names itself.
func TestFeedIsNamedInPartition(t *testing.T) {
	l := mustProvision(t, config("programs", "partition", `["{http.request.header.User-Agent}"]`))
	defer l.cancel()
	of := func(agent string) bool {
		r := requestOf(t, "tools/list")
		r.Header.Del("X-Client")
		if agent != "" {
			r.Header.Set("User-Agent", agent)
		}
		replacer := caddy.NewReplacer()
		caddyhttp.PrepareRequest(r, replacer, nil, new(caddyhttp.Server))
		return l.backend.Identity.Of(r, replacer).AsksLikeFeed()
	}
	if of("") || of("other/1") || !of(version.Agent()) {
		t.Errorf("without a name, with another and with the feed's, they ask like the feed: %t, %t, %t", of(""), of("other/1"), of(version.Agent()))
	}
}
