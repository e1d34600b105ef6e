package views

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
)

// liberal is a server that takes a request for a message in whatever sense it can:
// what lists is answered by all tools, also on a GET stream, everything else by what is
// hidden.
func liberal(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has gone
	}
	few := fixture.Offer{Tools: []string{"open-1", hushed + "-2", banned + "-3"}, About: about, ReadOnly: readOnly}
	list := `{"jsonrpc":"2.0","id":7,"result":{"tools":[` + strings.Join(scriptedTools(few), ",") + `]}}`
	if r.Method == http.MethodGet && len(body) == 0 {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = fmt.Fprintf(w, "event: endpoint\ndata: /messages?session=1\n\nid: 1\ndata: %s\n\n", list)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	said := everySense(&fixture.Request{Header: r.Header, Body: body})
	if strings.Contains(said, "/list") && !strings.Contains(said, hushed) {
		_, _ = io.WriteString(w, list)
		return
	}
	_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"`+secret+`"}]}}`)
}

// wordings are bodies that are, or that somebody may take for, a message.
func wordings(method, params string) map[string]string {
	m := fixture.Message("7", method, "{"+params+"}")
	other := fixture.Message("7", "ping", "{}")
	all := map[string]string{
		"plain": m, "on lines of its own": " \t\r\n" + m + "\r\n", "escaped": escaped(m), "with a BOM": "\ufeff" + m,
		"twice": m + m, "after another": other + "\n" + m, "before another": m + "\n" + other, "and bytes": m + "\x00\x00", "after bytes": "\x00" + m,
		"a batch": "[" + m + "]", "in a batch": "[" + other + "," + m + "]", "in a batch in a batch": "[[" + m + "]]", "cut off": m[:len(m)-1],
		"with a repeated method": `{"method":"ping",` + m[1:], "with a method repeated": m[:len(m)-1] + `,"method":"ping"}`,
		"with repeated params": `{"params":{},` + m[1:], "with params repeated": m[:len(m)-1] + `,"params":{}}`,
		"with a repeated name": strings.Replace(m, `{"name"`, `{"name":"open-1","name"`, 1), "with Params": strings.Replace(m, `"params"`, `"Params"`, 1),
		"with METHOD": strings.Replace(m, `"method"`, `"METHOD"`, 1), "with another letter": strings.Replace(m, `"params"`, "\"param\u017f\"", 1),
		"with Name": strings.Replace(m, `"name"`, `"Name"`, 1), "with two in two cases": strings.Replace(m, `{"name"`, `{"name":"open-1","NAME"`, 1),
		"of broken UTF-8": strings.Replace(m, `"params":{`, "\"params\":{\"x\":\"\xff\",", 1), "with a broken key": strings.Replace(m, `"params":{`, "\"params\":{\"\xff\":1,", 1),
		"after a comment": "/**/" + m, "with a comment": strings.Replace(m, `"params":`, `/**/"params":`, 1), "after a line of comment": "//\n" + m,
		"with a comma too many": strings.Replace(m, "}}", "},}", 1), "in single quotes": strings.ReplaceAll(m, `"`, "'"), "without quotes": strings.NewReplacer(`"params"`, "params", `"method"`, "method").Replace(m),
		"with half a pair": strings.Replace(m, `"params":{`, `"params":{"x":"\ud800",`, 1), "after a form feed": "\f" + m, "after a space of its own": "\u00a0" + m,
		"of another method": strings.Replace(m, "/", `\/`, 1), "of a method in capitals": strings.Replace(m, method, strings.ToUpper(method), 1),
		"of a method and a space": strings.Replace(m, method, method+" ", 1), "of an array": strings.Replace(strings.Replace(m, `"params":{`, `"params":[{`, 1), "}}", "}]}", 1),
	}
	for name, order := range map[string]int{"UTF-16, big": 0, "UTF-16, little": 1} {
		all["in "+name], all["in "+name+", with a BOM"], all["in "+name+", after a space"] = widened(m, order), widened("\ufeff"+m, order), widened(" "+m, order)
	}
	all["in UTF-32"] = "\x00\x00\x00" + strings.Join(strings.Split(m, ""), "\x00\x00\x00")
	return all
}

// escaped writes a message with as many escapes as there can be.
func escaped(message string) string {
	var b strings.Builder
	quoted := false
	for _, c := range message {
		if c == '"' {
			quoted = !quoted
		} else if quoted {
			fmt.Fprintf(&b, `\u%04x`, c)
			continue
		}
		b.WriteRune(c)
	}
	return b.String()
}

// widened writes a text as UTF-16, with the more significant byte at that place.
func widened(text string, high int) string {
	var b []byte
	for _, unit := range utf16.Encode([]rune(text)) {
		pair := [2]byte{}
		pair[high], pair[1-high] = byte(unit>>8), byte(unit)
		b = append(b, pair[:]...)
	}
	return string(b)
}

func gzipped(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = io.WriteString(w, text) // into memory
	_ = w.Close()
	return b.String()
}

// guises are requests that carry a body in one way or another.
func guises(body string) map[string]*caddytest.RawRequest {
	post := func(path string, header ...string) *caddytest.RawRequest {
		return &caddytest.RawRequest{Method: "POST", Path: path, Body: body, Header: append(header, "User-Agent: mcptest", "Accept: application/json, text/event-stream")}
	}
	const plain = "Content-Type: application/json"
	all := map[string]*caddytest.RawRequest{
		"": post("/mcp", plain), "of a charset": post("/mcp", plain+"; charset=utf-16"), "of no type": post("/mcp"), "of two types": post("/mcp", plain, "Content-Type: text/plain"),
		"of an odd type": post("/mcp", plain+"; charset=utf-8; charset=utf-16"), "as text": post("/mcp", "Content-Type: text/plain"),
		"of a JSON type": post("/mcp", "Content-Type: application/vnd.x+json"), "said to be coded": post("/mcp", plain, "Content-Encoding: gzip"),
		"of no coding": post("/mcp", plain, "Content-Encoding: identity"), "with a name": post("/mcp", plain, "Mcp-Method: tools/call", "Mcp-Name: open-1"),
		"as a ping": post("/mcp", plain, "Mcp-Method: ping"), "with a base64 name": post("/mcp", plain, "Mcp-Method: tools/call", "Mcp-Name: =?base64?b3Blbi0x?="),
		"of 2026": post("/mcp", plain, "Mcp-Protocol-Version: 2026-07-28", "Mcp-Method: tools/list"), "of 2025": post("/mcp", plain, "Mcp-Protocol-Version: 2025-11-25", "Mcp-Session-Id: x"),
		"resumed": post("/mcp", plain, "Last-Event-ID: 0"), "overridden": post("/mcp", plain, "X-HTTP-Method-Override: GET"), "expected": post("/mcp", plain, "Expect: 100-continue"),
		"of a tunnel": post("/mcp", plain, "Connection: Upgrade", "Upgrade: websocket"), "of h2c": post("/mcp", plain, "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA"),
		"of hidden fields": post("/mcp", plain, "Connection: Content-Type, X-Role", "X-Role: admin"), "of a range": post("/mcp", plain, "Range: bytes=0-20"),
		"behind a query": post("/mcp?method=tools/list", plain),
	}
	for _, method := range []string{"GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "post", "BREW"} {
		q := post("/mcp", plain, "X-HTTP-Method-Override: POST")
		q.Method = method
		all["by "+method] = q
	}
	for _, path := range []string{"/mcp/", "//mcp", "/MCP", "/%6dcp", "/mcp;x", "/./mcp", "/x/../mcp", "/messages?session=1", "/mcp%2f", "/"} {
		all["at "+path], all["of no type at "+path] = post(path, plain), post(path)
		all["as text at "+path], all["of a JSON type at "+path] = post(path, "Content-Type: text/plain; charset=utf-16"), post(path, "Content-Type: application/json-rpc")
	}
	for name, q := range maps.Clone(all) {
		chunked := *q
		chunked.Chunked = true
		all[name+", in chunks"] = &chunked
	}
	for _, path := range []string{"/mcp", "/mcp/"} {
		zipped := post(path, plain, "Content-Encoding: gzip")
		zipped.Body = gzipped(body)
		all["compressed at "+path] = zipped
	}
	return all
}

// TestHostileRequests asks a liberal server for what is hidden, in every disguise.
func TestHostileRequests(t *testing.T) {
	host := fixture.NewHost(t, http.HandlerFunc(liberal))
	for _, policy := range []string{"deny", "hints"}[:caddytest.Pick(1, 2)] {
		t.Run(policy, func(t *testing.T) {
			v := &veil{t: t, host: host, proxy: caddytest.StartProxy(t, veiled(host.URL, policy)), asked: func() []string { return nil }}
			c := &caller{v: v}
			for method, params := range map[string]string{"tools/call": `"name":"` + hushed + `-2","arguments":{}`, "tools/list": ""} {
				all := wordings(method, params)
				for i, what := range slices.Sorted(maps.Keys(all)) {
					v.attack(c, i, what, all[what], hushed+"-2")
				}
			}
			for i, uri := range []string{
				" test://@/note", "test://@/note ", "TEST://@/note", "test://\u0071qhush-2/note", "test://%71qhush-2/note", "%74est://@/note",
				"test:\\\\@/note", "test://x/../@/note", "test://x/%2e%2E/@/note", "test:\\t//@/note", "test://x/%2f%2e./@/note",
			} {
				uri = strings.ReplaceAll(uri, "@", hushed+"-2")
				v.attack(c, i, "the URI "+uri, fixture.Message("7", "resources/read", `{"uri":"`+uri+`"}`), uri, strings.ReplaceAll(uri, `\\`, `\`), hushed+"-2")
			}
			t.Logf("%d exchanges", v.exchanges)
		})
	}
}

// TestHostileStreams opens streams of a liberal server, on which it repeats its tools,
// also where nothing but tools is hidden.
func TestHostileStreams(t *testing.T) {
	host := fixture.NewHost(t, http.HandlerFunc(liberal))
	for what, site := range map[string]string{
		"all kinds": veiled(host.URL, "deny"), "tools": caddytest.Directive(host.URL, "deny tools "+hushed+"* "+banned+"*"),
	} {
		t.Run(what, func(t *testing.T) {
			c := &caller{v: &veil{t: t, host: host, proxy: caddytest.StartProxy(t, site)}}
			for _, path := range []string{"/mcp", "/mcp/", "/sse"} {
				for _, last := range [][]string{nil, {"Last-Event-ID: 0"}} {
					for _, chunked := range []bool{false, true} {
						stream := &caddytest.RawRequest{Method: "GET", Path: path, Header: append(last, "User-Agent: mcptest", "Accept: text/event-stream"), Chunked: chunked}
						a := c.v.sendRaw(c, "a stream of "+path, stream)
						if !bytes.Contains(a.Body, []byte("open-1")) || !bytes.Contains(a.Body, []byte("data: /messages?session=1\n")) {
							t.Errorf("a stream of %s, in chunks: %v, gave %d %q", path, chunked, a.Status, a.Body)
						}
					}
				}
			}
		})
	}
}

// attack sends a body in every guise, or, usually, in every fifth: which ones depends
// on its number. What is plain is always sent in all.
func (v *veil) attack(c *caller, number int, what, body string, said ...string) {
	v.t.Helper()
	all := guises(body)
	names := slices.Sorted(maps.Keys(all))
	if !caddytest.Long() && what != "plain" {
		names = slices.DeleteFunc(names, func(name string) bool { return (slices.Index(names, name)+number)%5 != 0 })
	}
	v.host.Forget()
	for _, name := range names {
		v.sendRaw(c, what+" "+name, all[name], said...)
	}
	for _, r := range v.host.Requests(ofClients) {
		if strings.Contains(everySense(&r), hushed) {
			v.t.Errorf("%s: the server was asked %s %s %v: %.200q", what, r.HTTPMethod, r.URL, r.Header["Content-Type"], r.Body)
		}
	}
}

// sendRaw sends a request on a connection of its own.
func (v *veil) sendRaw(c *caller, what string, q *caddytest.RawRequest, said ...string) *fixture.Answer {
	v.t.Helper()
	conn, err := net.Dial("tcp", v.proxy.Addr)
	if err != nil {
		v.t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(fixture.Deadline)); err != nil {
		v.t.Fatal(err)
	}
	if _, err := conn.Write(q.Bytes(v.proxy.Addr)); err != nil {
		v.t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: q.Method})
	if err != nil {
		v.t.Errorf("%s: %v", what, err)
		return &fixture.Answer{}
	}
	defer res.Body.Close()
	read, _ := io.ReadAll(res.Body) // an answer that is cut off is one too
	a := &fixture.Answer{Status: res.StatusCode, Header: res.Header, Body: read}
	c.wantUnseen(what, a, said...)
	return a
}
