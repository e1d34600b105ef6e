package mcpcache

import (
	"strings"
	"testing"
)

// TestDoor has toolkits of which it is clear who is let in, and others.
func TestDoor(t *testing.T) {
	const guard, forward, byGuard = `{"guard":"model"}`, `{"mode":"forward"}`, `{"mode":"guard"}`
	server := func(name string, options ...string) string { return serverNamed(name, options...) }
	own := func(name string) string { return server(name, "guard", guard, "authorization", byGuard) }
	tests := map[string]struct {
		servers []string
		options []string
		door    string
		want    string // of the error
	}{
		"nobody is kept out":      {servers: []string{server("one")}},
		"all are in":              {servers: []string{own("one")}, options: []string{"admit", `"all"`}},
		"the one that forwards":   {servers: []string{own("one"), server("two", "authorization", forward)}, door: "two"},
		"the one that is named":   {servers: []string{server("one", "authorization", forward), server("two", "authorization", forward)}, options: []string{"door", `"two"`}, door: "two"},
		"one that knows a header": {servers: []string{own("one"), server("two", "headers", `["X-Api-Key"]`)}, options: []string{"door", `"two"`, "admit_for", "1000000000"}, door: "two"},
		"several without a door":  {servers: []string{server("one", "authorization", forward), server("two", "authorization", forward)}, options: []string{"admit", `"all"`}},

		"a guard alone":        {servers: []string{own("one")}, want: "server one has a guard, so whoever gets in acts as that account or sees its lists: say who is let in"},
		"a header is no door":  {servers: []string{own("one"), server("two", "headers", `["X-Api-Key"]`)}, want: "server one has a guard"},
		"two doors":            {servers: []string{server("one", "authorization", forward), server("two", "authorization", forward)}, want: "authorization forward: one, two have it; say by door <server>"},
		"nobody's name":        {servers: []string{server("one")}, options: []string{"door", `"two"`}, want: `door: no server is called "two"`},
		"one that knows none":  {servers: []string{server("one")}, options: []string{"door", `"one"`}, want: "door: one is sent nothing by which it could know a caller"},
		"a door for all":       {servers: []string{server("one", "authorization", forward)}, options: []string{"door", `"one"`, "admit", `"all"`}, want: "door: with admit all, handlers in front let callers in"},
		"nobody to admit":      {servers: []string{server("one")}, options: []string{"admit", `"upstream"`}, want: "admit: no server is sent anything by which it could let a caller in"},
		"a guard of no use":    {servers: []string{server("one", "guard", guard)}, want: "one: guard: its credential would fetch lists, and no caller's request would carry one"},
		"no guard":             {servers: []string{server("one", "authorization", byGuard)}, want: "one: authorization guard: the server has no guard"},
		"no mode":              {servers: []string{server("one", "authorization", `{"mode":"all"}`)}, want: `one: authorization: "all" is not one of off, forward, guard, from`},
		"a header too many":    {servers: []string{server("one", "authorization", `{"mode":"forward","header":"X-A"}`)}, want: "one: authorization: forward takes no header"},
		"no header":            {servers: []string{server("one", "authorization", `{"mode":"from"}`)}, want: `one: authorization: from "" is not the name of a header`},
		"the same header":      {servers: []string{server("one", "authorization", `{"mode":"from","header":"authorization"}`)}, want: "one: authorization: from Authorization is what forward does"},
		"a header of ours":     {servers: []string{server("one", "authorization", `{"mode":"from","header":"mcp-session-id"}`)}, want: "one: authorization: from Mcp-Session-Id is not the caller's to say"},
		"headers of ours":      {servers: []string{server("one", "headers", `["host"]`)}, want: "one: headers: Host is not the caller's to say"},
		"a credential by name": {servers: []string{server("one", "headers", `["authorization"]`)}, want: "one: headers: Authorization is passed on by authorization forward"},
		"a harmless door":      {servers: []string{server("one", "headers", `["User-Agent"]`)}, options: []string{"door", `"one"`}, want: "one: headers: User-Agent tells no caller from another, and every server is sent it anyway"},
		"a harmless login":     {servers: []string{server("one", "authorization", `{"mode":"from","header":"traceparent"}`)}, want: "one: authorization: from Traceparent tells no caller from another"},
		"all headers":          {servers: []string{server("one", "headers", `["X-*"]`)}, want: `one: headers: "X-*" is not the name of a header`},
		"odd headers":          {servers: []string{server("one", "headers", `["a b"]`)}, want: `one: headers: "a b" is not the name of a header`},
		"headers twice":        {servers: []string{server("one", "headers", `["X-A","x-a"]`)}, want: "one: headers: X-A is named twice"},
	}
	for name, tt := range tests {
		l, err := provision(t, toolkitNamed("tk", tt.servers, tt.options...))
		if err != nil {
			if tt.want == "" || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s: got %v, want %q", name, err, tt.want)
			}
			continue
		}
		if door := l.several.endpoint.Settings.Door; tt.want != "" || door != tt.door {
			t.Errorf("%s: the door is %q, want %q, %q", name, door, tt.door, tt.want)
		}
		l.cancel()
	}
	if _, err := provision(t, `{"upstream":{"handler":"mcp_cache_stand","name":"x"},"door":"x"}`); err == nil || !strings.Contains(err.Error(), "door: only with several servers") {
		t.Errorf("a door without servers: %v", err)
	}
}
