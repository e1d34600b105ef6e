package lists

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// wireOutcome is what became of a request.
type wireOutcome struct {
	status int
	cache  string
	result bool // the body has a JSON-RPC result
}

// wireTo sends requests to an address one after another.
type wireTo struct {
	addr string
	// from is the session of the requests, session the one to be used instead.
	from, session string

	conn   net.Conn
	reader *bufio.Reader
}

func (w *wireTo) close() {
	if w.conn != nil {
		_ = w.conn.Close()
		w.conn = nil
	}
}

// send returns what became of a request. A connection that the other side has
// ended is opened again.
func (w *wireTo) send(r *caddytest.RawRequest) (wireOutcome, error) {
	return fixture.Insist(func() (wireOutcome, error) {
		if w.conn == nil {
			conn, err := net.Dial("tcp", w.addr)
			if err != nil {
				return wireOutcome{}, err
			}
			w.conn, w.reader = conn, bufio.NewReader(conn)
		}
		outcome, err := w.exchange(r)
		if err != nil {
			w.close()
		}
		return outcome, err
	})
}

func (w *wireTo) exchange(r *caddytest.RawRequest) (outcome wireOutcome, err error) {
	if err := w.conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		return outcome, err
	}
	request := r.Bytes(w.addr)
	if w.session != "" {
		request = bytes.ReplaceAll(request, []byte(w.from), []byte(w.session))
	}
	if _, err := w.conn.Write(request); err != nil {
		return outcome, err
	}
	res, err := http.ReadResponse(w.reader, &http.Request{Method: r.Method})
	if err != nil {
		return outcome, err
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return outcome, err
	}
	if res.Close || res.StatusCode >= http.StatusBadRequest {
		w.close()
	}
	return wireOutcome{res.StatusCode, res.Header.Get("Cache-Status"), hasResult(body)}, nil
}

// hasResult reports whether an answer, or an event of it, is a result.
func hasResult(body []byte) bool {
	isResult := func(message []byte) bool {
		var m struct{ Result json.RawMessage }
		return json.Unmarshal(message, &m) == nil && m.Result != nil
	}
	if isResult(body) {
		return true
	}
	for line := range bytes.Lines(body) {
		if data, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("data:")); ok && isResult(data) {
			return true
		}
	}
	return false
}

// mutations change one thing of a request each.
var requestMutations = []func(*rand.Rand, *caddytest.RawRequest){
	func(r *rand.Rand, q *caddytest.RawRequest) { // a key twice, in one place or another
		key := anyOf(r, fmt.Sprintf(`"id":%d,`, 1000+r.IntN(1e9)), `"method":"tools/call",`, `"jsonrpc":"2.0",`, `"params":{},`, `"method":"tools/list",`)
		q.Body = anyOf(r, "{"+key+q.Body[1:], q.Body[:len(q.Body)-1]+","+strings.TrimSuffix(key, ",")+"}")
	},
	func(r *rand.Rand, q *caddytest.RawRequest) { // a key in another case, or escaped
		from := anyOf(r, `"method"`, `"id"`, `"params"`, `"jsonrpc"`, `"_meta"`, `"cursor"`)
		to := anyOf(r, strings.ToUpper(from), `"\u00`+fmt.Sprintf("%02x", from[1])+from[2:], `"`+strings.ToUpper(from[1:2])+from[2:], from[:len(from)-1]+` "`)
		q.Body = strings.Replace(q.Body, from, to, 1)
	},
	func(r *rand.Rand, q *caddytest.RawRequest) { // another value
		q.Body = strings.Replace(q.Body, anyOf(r, `"id":1`, `"jsonrpc":"2.0"`, `"tools/list"`, `"2026-07-28"`, `{}`),
			anyOf(r, `"id":null`, `"id":1.5`, `"jsonrpc":"1.0"`, `"tools/List"`, `"2025-11-25"`, `[]`, `null`, `"x"`, `1e999`), 1)
	},
	func(r *rand.Rand, q *caddytest.RawRequest) { // a parameter more
		q.Body = strings.Replace(q.Body, `"params":{`, `"params":{`+anyOf(r, `"cursor":"x",`, `"cursor":"",`, `"cursor":null,`, `"x":1,`, `"_meta":{},`), 1)
	},
	func(r *rand.Rand, q *caddytest.RawRequest) { // an integer that not every program can hold
		ids := []string{"900719925474099", "9223372036854775", "1", "12345678901234567890"}
		if slices.ContainsFunc(q.Header, func(line string) bool { return strings.HasPrefix(line, "Mcp-Session-Id:") }) {
			// What does not fit into 64 bits is one id to go-sdk, and others may be
			// using it in this session.
			ids = ids[:3]
		}
		q.Body = strings.Replace(q.Body, `"id":1`, `"id":`+anyOf(r, "-", "")+anyOf(r, ids...)+fmt.Sprint(r.IntN(10)), 1)
	},
	func(r *rand.Rand, q *caddytest.RawRequest) { // something in _meta
		client := func(members string) string {
			return `"io.modelcontextprotocol/clientInfo":{"name":"n","version":"1",` + members + `},`
		}
		q.Body = strings.Replace(q.Body, `"_meta":{`, `"_meta":{`+anyOf(r, `"progressToken":1.5,`, `"progressToken":9007199254740993,`, `"progressToken":1,`,
			`"io.modelcontextprotocol/logLevel":"zz",`, `"io.modelcontextprotocol/logLevel":"alert",`, `"baggage":"userId=2",`, `"baggage":5,`,
			client(`"title":5`), client(`"title":null`), client(`"description":[]`), client(`"websiteUrl":{}`), client(`"x":5`), client(`"icons":{}`),
			client(`"icons":[{"src":5}]`), client(`"icons":[{"src":"s","sizes":"any"}]`), client(`"icons":[{"src":"s","theme":"blue"}]`), client(`"icons":[{}]`),
			client(`"icons":[{"src":"s","mimeType":5}]`), client(`"icons":[{"src":"s","sizes":["any"],"theme":"dark","mimeType":"image/png"}]`)), 1)
	},
	func(r *rand.Rand, q *caddytest.RawRequest) { // around the body
		q.Body = anyOf(r, "["+q.Body+"]", q.Body+q.Body, q.Body+" ", "\ufeff"+q.Body, q.Body[:len(q.Body)-1], "", q.Body+"\x00", " \n"+q.Body)
	},
	func(r *rand.Rand, q *caddytest.RawRequest) { // any byte
		if len(q.Body) > 0 {
			i := r.IntN(len(q.Body))
			q.Body = q.Body[:i] + string([]byte{byte(r.IntN(256))}) + q.Body[i+1:]
		}
	},
	func(r *rand.Rand, q *caddytest.RawRequest) { // a header line less, twice, or in other words
		i := r.IntN(len(q.Header))
		name, value, _ := strings.Cut(q.Header[i], ": ")
		switch r.IntN(6) {
		case 5: // on two lines what stands on one
			first, second, _ := strings.Cut(value, ", ")
			q.Header = append(slices.Delete(slices.Clone(q.Header), i, i+1), name+": "+first, name+": "+second)
		case 0:
			q.Header = slices.Delete(slices.Clone(q.Header), i, i+1)
		case 1:
			q.Header = append(slices.Clone(q.Header), q.Header[i])
		case 2:
			q.Header = append(slices.Clone(q.Header), name+": x")
		default:
			q.Header = slices.Clone(q.Header)
			q.Header[i] = anyOf(r, strings.ToLower(name)+": "+value, name+": "+value+" ", name+":", name+": "+strings.ToUpper(value), name+": "+value+";q=0",
				name+": "+value+", x", name+": x"+value)
		}
	},
	func(r *rand.Rand, q *caddytest.RawRequest) { // a header line more
		q.Header = append(slices.Clone(q.Header), anyOf(r,
			"Origin: http://evil.example", "Origin: null", "Content-Encoding: gzip", "Mcp-Session-Id: x", "Mcp-Session-Id:", "Mcp-Method: tools/call",
			"Mcp-Name: x", "Mcp-Param-X: y", "X-Forwarded-Host: evil.example", "Forwarded: host=evil.example", "X-HTTP-Method-Override: GET",
			"Last-Event-Id: 1", "Expect: 200-ok", "Authorization: Bearer x", "Cookie: a=b", "Range: bytes=0-1", "If-None-Match: *", "TE: trailers"))
	},
	func(r *rand.Rand, q *caddytest.RawRequest) { // another host
		// That case and a last dot make no other host, servers may see otherwise.
		q.Host = anyOf(r, "evil.example", "localhost", "127.0.0.1", "127.0.0.1.evil.example", "[::1]", "evil.example:80", "x@localhost")
	},
	func(r *rand.Rand, q *caddytest.RawRequest) { // another spelling of the path
		q.Path = anyOf(r, "/mcp/", "//mcp", "/MCP", "/mcp?x=1", "/./mcp", "/x/../mcp", "/%6dcp", "/mcp;x", "/mcp%2f", "/", "/mcp/x", "/mcp?")
	},
	func(r *rand.Rand, q *caddytest.RawRequest) {
		q.Method = anyOf(r, "PUT", "PATCH", "post", "HEAD", "OPTIONS", "TRACE")
	},
	func(_ *rand.Rand, q *caddytest.RawRequest) { q.Chunked = true },
}

func anyOf(r *rand.Rand, texts ...string) string { return texts[r.IntN(len(texts))] }

// wellFormed are requests that a server answers, of each era.
func wellFormed(session string) []caddytest.RawRequest {
	usual := []string{"Content-Type: application/json", "Accept: application/json, text/event-stream"}
	meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	modern := func(method, params string) caddytest.RawRequest {
		return caddytest.RawRequest{
			Method: "POST", Path: "/mcp", Body: fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s%s}}`, method, params, meta),
			Header: append(slices.Clone(usual), "Mcp-Protocol-Version: 2026-07-28", "Mcp-Method: "+method),
		}
	}
	if session == "" {
		return []caddytest.RawRequest{modern(scripted.ToolsList, ""), modern(scripted.ToolsList, ""), modern(scripted.PromptsList, ""), modern("server/discover", "")}
	}
	legacy := func(method, params string) caddytest.RawRequest {
		return caddytest.RawRequest{
			Method: "POST", Path: "/mcp", Body: fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s}}`, method, params),
			Header: append(slices.Clone(usual), "Mcp-Protocol-Version: 2025-11-25", "Mcp-Session-Id: "+session),
		}
	}
	return []caddytest.RawRequest{legacy(scripted.ToolsList, ""), legacy(scripted.ToolsList, ""), legacy(scripted.PromptsList, ""), legacy("ping", "")}
}

// TestDifferential sends mutated requests to servers directly and through the
// cache: none is answered from the cache that the server would refuse, and none
// gets further than it does directly.
func TestDifferential(t *testing.T) {
	scripts := caddytest.NewUpstream(t)
	scripts.Host.Start()
	for name, hosted := range map[string]struct {
		url    string
		modern bool
	}{
		"scripted modern": {scripts.Host.URL, true}, "scripted legacy": {scripts.Host.URL, false},
		"go-sdk modern": {fixture.NewGoSDKServer(t, true).URL, true}, "go-sdk legacy": {fixture.NewGoSDKServer(t, false).URL, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := caddytest.StartProxy(t, caddytest.Directive(hosted.url))
			var senders sync.WaitGroup
			seen := make(chan map[string]int, 4)
			for seed := range uint64(cap(seen)) {
				d := &difference{t: t, seed: seed, direct: wireTo{addr: addressOf(hosted.url)}, through: wireTo{addr: addressOf(p.URL)}}
				if !hosted.modern {
					// A request may do something to its session: each way has one.
					d.direct.from = fixture.NewLegacy(t, p.URL, scripted.LatestLegacy, "").Session
					d.direct.session = fixture.NewLegacy(t, hosted.url, scripted.LatestLegacy, "").Session
				}
				senders.Go(func() { seen <- d.search(wellFormed(d.direct.from), caddytest.Pick(250, 7500)) })
			}
			senders.Wait()
			close(seen)
			wantCompared(t, seen)
		})
	}
}

// addressOf returns the host and port of a URL.
func addressOf(url string) string {
	_, rest, _ := strings.Cut(url, "://")
	addr, _, _ := strings.Cut(rest, "/")
	return addr
}

// wantCompared says what became of all mutations, and fails if none was a hit or
// none was refused.
func wantCompared(t *testing.T, counts <-chan map[string]int) {
	t.Helper()
	seen := make(map[string]int)
	for count := range counts {
		for outcome, n := range count {
			seen[outcome] += n
		}
	}
	for _, outcome := range slices.Sorted(maps.Keys(seen)) {
		t.Logf("%6d %s", seen[outcome], outcome)
	}
	if seen["hit"] == 0 || seen["refused by both"] == 0 {
		t.Errorf("no hit or no refusal among %v: nothing was compared", seen)
	}
}

// difference looks for requests that get further through the cache than directly.
type difference struct {
	t               *testing.T
	seed            uint64
	direct, through wireTo
}

// search sends n mutations of the requests, and fails for the first that gets
// further through the cache. It returns what became of how many.
func (d *difference) search(requests []caddytest.RawRequest, n int) map[string]int {
	defer d.direct.close()
	defer d.through.close()
	r := rand.New(rand.NewPCG(d.seed, 11))
	seen := make(map[string]int)
	for range n {
		if err := d.settle(&requests[0]); err != nil {
			d.t.Errorf("seed %d, before a mutation: %v", d.seed, err)
			break
		}
		q := requests[r.IntN(len(requests))]
		for range 1 + r.IntN(3) {
			if mutate := requestMutations[r.IntN(len(requestMutations))]; len(q.Body) > 2 && len(q.Header) > 0 {
				mutate(r, &q)
			}
		}
		outcome, err := compareWires(&d.direct, &d.through, &q)
		seen[outcome]++
		if err != nil {
			d.t.Errorf("seed %d: %v:\n%q", d.seed, err, q.Bytes("HOST"))
			break
		}
	}
	return seen
}

// settle sends a list until it is a hit: what the last mutation was refused for, or
// has called, does not keep the next from being one.
func (d *difference) settle(list *caddytest.RawRequest) error {
	for deadline := time.Now().Add(30 * time.Second); ; {
		outcome, err := compareWires(&d.direct, &d.through, list)
		switch {
		case err != nil || outcome == "hit":
			return err
		case time.Now().After(deadline):
			return fmt.Errorf("the list is %s, and never a hit", outcome)
		}
	}
}

// compareWires sends a request both ways and returns what became of it, in a few
// words.
func compareWires(direct, through *wireTo, q *caddytest.RawRequest) (string, error) {
	got, err := through.send(q)
	if err != nil {
		return "", fmt.Errorf("through the cache: %w", err)
	}
	want, err := direct.send(q)
	if err != nil {
		return "", fmt.Errorf("directly: %w", err)
	}
	hit := strings.Contains(got.cache, "; hit")
	switch {
	case hit && !want.result:
		return "", fmt.Errorf("a hit, and the server gives %d without a result", want.status)
	case got.result && !want.result, got.status < 300 && want.status >= 400:
		return "", fmt.Errorf("%d through the cache (result: %v, %q), %d directly (result: %v)", got.status, got.result, got.cache, want.status, want.result)
	case hit:
		return "hit", nil
	case want.status >= 400 || !want.result:
		return "refused by both", nil
	case got.result:
		return "forwarded", nil
	}
	return "refused by the cache", nil
}
