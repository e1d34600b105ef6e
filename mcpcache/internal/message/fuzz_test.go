package message

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// Whatever Decode accepts, every other parser reads in the same way.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		legacyList, modernList, `[` + legacyList + `]`,
		`{"params":{"cursor":"","uri":"u","name":"n","arguments":{"method":1}},"method":"a\/b","jsonrpc":"2.0","id":-1e5}`,
		`{"jsonrpc":"2.0","id":1,"method":"x","Method":"y"}`,
		`{"jsonrpc":"2.0","id":1,"method":"x","\u006dethod":"y"}`,
		`{"jsonrpc":"2.0","id":1,"method":"x","paramſ":{}}`,
		`{"jsonrpc":"2.0","id":1,"method":"x","params":{"_meta":{"progressToKen":1}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"x","params":{"cursor":"a","\u0063ursor":"b"}}`,
		`{"jsonrpc":"2.0","id":1,"result":{}}`, `{"jsonrpc":"2.0","error":{},"id":""}`,
		`{"jsonrpc":"2.0","id":1,"method":"x"}{}`, "{\"jsonrpc\":\"2.0\",\"method\":\"\xff\"}", `{"jsonrpc":"2.0","method":"\ud800"}`,
		`{"jsonrpc":"2.0","id":1,"method":"x","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"\u0032","a":1}}}`,
		`{"jsonrpc":"2.0","id":9007199254740992,"method":"x","params":{"_meta":{"progressToken":-9007199254740991,"baggage":"a=\u0062"}}}`,
		`{"jsonrpc":"2.0","method":"x","params":{"_meta":{"io.modelcontextprotocol/logLevel":"alert","io.modelcontextprotocol/clientInfo":` +
			`{"name":"n","version":"1","title":"","icons":[{"src":"s","sizes":["a"],"theme":"dark","mimeType":"m"}]}}}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		before := bytes.Clone(body)
		var req Request
		err := Decode(body, &req)
		if !bytes.Equal(body, before) {
			t.Fatal("the body was changed")
		}
		if err != nil {
			if !reflect.DeepEqual(req, Request{}) {
				t.Fatal("a refused request is not reset")
			}
			return
		}
		if !utf8.Valid(body) || !json.Valid(body) {
			t.Fatal("accepted what is not JSON")
		}
		compareRequest(t, body, req)
	})
}

func compareRequest(t *testing.T, body []byte, req Request) {
	want := Request{}
	top, extra := refObject(t, body, "jsonrpc", "id", "method", "params", "result", "error")
	if refString(t, top["jsonrpc"]) != "2.0" {
		t.Fatal("accepted another version")
	}
	want.ExtraMembers = extra
	want.ID = present(top, "id")
	if top["id"] == "null" || len(top["id"]) > 1024 {
		t.Fatal("accepted the id")
	}
	if raw, ok := top["id"]; ok {
		want.UnsafeInteger = refUnsafe(t, raw)
	}
	if raw, ok := top["method"]; ok {
		want.Method = []byte(refString(t, raw))
	}
	if raw, ok := top["params"]; ok {
		params, extra := refObject(t, []byte(raw), "_meta", "cursor", "uri", "name", "arguments", "inputResponses", "requestState")
		want.Cursor, want.URI, want.Name = present(params, "cursor"), present(params, "uri"), present(params, "name")
		for key, raw := range params {
			switch key {
			case "cursor", "uri":
				refString(t, raw)
			case "_meta":
				var unsafe bool
				want.Meta, unsafe = refMeta(t, []byte(raw))
				want.UnsafeInteger = want.UnsafeInteger || unsafe
			default:
				extra = true
			}
		}
		want.ExtraParams = extra
	}
	if !reflect.DeepEqual(req, want) {
		t.Fatalf("got %s\nwant %s", show(req), show(want))
	}

	var folding refRequest
	if err := json.Unmarshal(body, &folding); err != nil {
		t.Fatalf("accepted %q: %v", body, err)
	}
	got := []string{folding.Method, string(folding.ID), string(folding.Params.Cursor), string(folding.Params.URI), string(folding.Params.Name)}
	exact := []string{string(req.Method), string(req.ID), string(req.Cursor), string(req.URI), string(req.Name)}
	if !slices.Equal(got, exact) {
		t.Fatalf("a parser that ignores case reads %q, Decode %q", got, exact)
	}
}

// present returns the raw value of a member, nil when there is none.
func present(object map[string]string, key string) []byte {
	if raw, ok := object[key]; ok {
		return []byte(raw)
	}
	return nil
}

func refMeta(t *testing.T, raw []byte) (meta Meta, unsafe bool) {
	const prefix = "io.modelcontextprotocol/"
	members, extra := refObject(t, raw, "progressToken", prefix+"protocolVersion", prefix+"clientCapabilities",
		prefix+"clientInfo", prefix+"logLevel", "traceparent", "tracestate", "baggage")
	meta.Extra = extra
	meta.Capabilities = present(members, prefix+"clientCapabilities")
	if version, ok := members[prefix+"protocolVersion"]; ok {
		meta.Revision = []byte(refString(t, version))
	}
	if baggage, ok := members["baggage"]; ok {
		meta.Baggage = []byte(refString(t, baggage))
	}
	if token, ok := members["progressToken"]; ok {
		unsafe = refUnsafe(t, token)
	}
	if level, ok := members[prefix+"logLevel"]; ok &&
		!slices.Contains([]string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}, refString(t, level)) {
		t.Fatalf("accepted the log level %s", level)
	}
	if info, ok := members[prefix+"clientInfo"]; ok {
		refClientInfo(t, []byte(info))
	}
	return meta, unsafe
}

func FuzzParseResponse(f *testing.F) {
	for _, seed := range []string{
		`{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}`,
		`{"jsonrpc":"2.0","id":null,"error":{"code":-32022,"message":"m","data":{"supported":["a"]}}}`,
		`{"jsonrpc":"2.0","error":{"code":1,"message":""}}`,
		`{"jsonrpc":"2.0","id":1,"result":{},"Result":{}}`,
		`{"jsonrpc":"2.0","id":1.0,"method":null,"error":null,"result":{}}`,
		`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"x","capabilities":{"tools":{"listChanged":true}}}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		resp, err := ParseResponse(data)
		if err != nil {
			return
		}
		for _, m := range refMembers(t, data) {
			if strings.EqualFold(BeforeNUL(m.name), "jsonrpc") && m.raw != version { // it may come again
				t.Fatalf("got %+v of %q", resp, data)
			}
		}
		top, _ := refObject(t, data, "id", "method", "params", "result", "error")
		for name, raw := range top {
			if raw == "null" {
				delete(top, name) // it counts as absent
			}
		}
		if (resp.Result == nil) == (resp.Error == nil) || string(resp.Result) != top["result"] {
			t.Fatalf("got %+v of %q", resp, data)
		}
		if id := top["id"]; string(resp.ID) != id {
			got, whole := new(big.Int).SetString(string(resp.ID), 10)
			want, number := new(big.Rat).SetString(id)
			if !whole || !number || want.Cmp(new(big.Rat).SetInt(got)) != 0 {
				t.Fatalf("got id %q of %q", resp.ID, data)
			}
		}
		if resp.Error != nil {
			members, _ := refObject(t, []byte(top["error"]), "code", "message", "data")
			if fmt.Sprint(resp.Error.Code) != members["code"] || resp.Error.Message != refString(t, members["message"]) {
				// A code such as -0 is an integer in another spelling.
				var code int
				if json.Unmarshal([]byte(members["code"]), &code) != nil || code != resp.Error.Code {
					t.Fatalf("got %+v of %q", resp.Error, data)
				}
			}
			return
		}
		if info, err := ParseServerInfo(resp.Result); err == nil {
			members, _ := refObject(t, resp.Result, "protocolVersion", "supportedVersions", "capabilities")
			if raw, ok := members["protocolVersion"]; ok && refString(t, raw) != info.ProtocolVersion {
				t.Fatalf("got %+v of %q", info, resp.Result)
			}
		}
	})
}

// Whatever ParsePage accepts is spliced into a valid message that has the same
// members but ttlMs, and the same items.
// What is taken for a message by [ParseEnvelope] is one to other parsers, too.
func FuzzParseEnvelope(f *testing.F) {
	for _, seed := range []string{
		legacyList, `{"jsonrpc":"2.0","id":1,"result":{}}`, `{"jsonrpc":"2.0","id":null,"error":{}}`,
		`{"jsonrpc":"2.0","method":"x","paramS":{}}`, "\uFEFF{}", `[{}]`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := ParseEnvelope(data)
		if err != nil {
			return
		}
		top, _ := refObject(t, data, "jsonrpc", "id", "method", "params", "result", "error")
		if id := top["id"]; string(e.ID) != id && (id != "null" || e.ID != nil) {
			t.Fatalf("got id %q of %q", e.ID, data)
		}
		if _, named := top["method"]; named == e.Response {
			t.Fatalf("response: %v, of %q", e.Response, data)
		}
	})
}

func FuzzPage(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"ttlMs":1}`, `{"tools":[]}`, toolPage(0, 2, true), toolPage(5, 1, false),
		`{ "tools" : [ {"name":"a"} , {"x":[{}],"name":"\u0062"} ] , "a" : 1 , "ttlMs" : 1.5 }`,
		`{"tool\u0073":[{"name":"é"}],"\u0074tlMs":-1,"nextCursor":"","cacheScope":null}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, result []byte) {
		for _, kind := range []revision.Kind{revision.Tools, revision.Discover} {
			p, err := ParsePage(bytes.Clone(result), kind)
			if err != nil {
				continue
			}
			items := itemsOf(p)
			b := Single(kind, p)
			members := checkBody(t, b, kind, items)
			var want map[string]json.RawMessage
			if err := json.Unmarshal(result, &want); err != nil {
				t.Fatal(err)
			}
			for _, known := range []string{"resultType", "ttlMs", "cacheScope", "nextCursor"} {
				if string(want[known]) == "null" && (known != "nextCursor" || kind != revision.Discover) {
					delete(want, known) // it counts as absent
				}
			}
			if _, ok := want["ttlMs"]; ok != b.HasTTL {
				t.Fatalf("HasTTL is %v for %q", b.HasTTL, result)
			}
			delete(want, "ttlMs")
			if len(members) != len(want) {
				t.Fatalf("got %d members of %q", len(members), result)
			}
			for name, raw := range want {
				if name != kind.ItemsKey() && string(raw) != string(members[name]) {
					t.Fatalf("member %q: got %q, want %q", name, members[name], raw)
				}
			}
			if p, err = ParsePage(bytes.Clone(result), kind); err != nil {
				t.Fatal(err)
			}
			joined, err := Join(kind, []*Page{p})
			if wanted := p.NextCursor == nil && p.Complete; (err == nil) != wanted {
				t.Fatalf("joining: %v", err)
			}
			if err == nil && !reflect.DeepEqual(joined, b) {
				t.Fatalf("joined %q, single %q", joined.Bytes, b.Bytes)
			}
		}
	})
}

// FuzzJoin cuts a list into pages and joins them.
func FuzzJoin(f *testing.F) {
	f.Add("plain", uint8(3), uint8(1), uint8(0), int64(297_000), `"id"`)
	f.Add("q\"\\u\n é", uint8(9), uint8(4), uint8(6), int64(-1), `1e5`)
	f.Add("", uint8(0), uint8(2), uint8(255), int64(0), `-7`)
	f.Fuzz(func(t *testing.T, text string, n, size, dice uint8, ttl int64, id string) {
		var req Request
		if Decode([]byte(`{"jsonrpc":"2.0","method":"","id":`+id+`}`), &req) != nil {
			return
		}
		pages, items := cutPages(t, text, int(n), int(size%8)+1, dice)
		b, err := Join(revision.Tools, pages)
		if err != nil {
			t.Fatal(err)
		}
		members := checkBody(t, b, revision.Tools, items)
		if members["ttlMs"] != nil || members["nextCursor"] != nil {
			t.Fatalf("left in: %q", b.Bytes)
		}
		var scope string
		if raw := members["cacheScope"]; raw != nil {
			scope = refString(t, string(raw))
		}
		if scope != b.Scope.String() {
			t.Fatalf("scope %q, written %q", b.Scope, scope)
		}

		whole := AppendPrefix(nil, req.ID, time.Duration(ttl)*time.Millisecond, len(b.Bytes) > len("}}"))
		whole = append(whole, b.Bytes...)
		resp, err := ParseResponse(whole)
		if err != nil || !bytes.Equal(resp.ID, req.ID) {
			t.Fatalf("id %q of %q: %v", resp.ID, whole, err)
		}
		again, err := ParsePage(resp.Result, revision.Tools)
		if err != nil || !slices.Equal(again.itemNames(), b.Names()) {
			t.Fatalf("names %q of %q: %v", again.itemNames(), whole, err)
		}
	})
}

// cutPages makes n tools and cuts them into pages of that size. The dice decide
// which members the pages have besides.
func cutPages(t *testing.T, text string, n, size int, dice uint8) (pages []*Page, items [][]byte) {
	description, err := json.Marshal(strings.ToValidUTF8(text, "?"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		items = append(items, fmt.Appendf(nil, `{"x":[{},%s], "name":"%d","description":%s }`, description, i, description))
	}
	scopes := []string{``, `,"cacheScope":"public"`, `, "cacheScope" : "private"`, `,"cacheScope":"publi\u0063"`}
	for first := 0; ; first += size {
		last := min(first+size, n)
		page := []byte(`{"m":` + string(description) + `,"tools": [ `)
		page = append(page, bytes.Join(items[first:last], []byte(" ,\n"))...)
		page = append(page, " ]"...)
		page = append(page, scopes[int(dice)>>(first%7)%len(scopes)]...)
		if dice&8 != 0 {
			page = append(page, `,"ttlMs":5`...)
		}
		if last < n {
			page = append(page, `,"nextCursor":`...)
			page = append(page, description...)
		}
		p, err := ParsePage(append(page, '}'), revision.Tools)
		if err != nil {
			t.Fatal(err)
		}
		if pages = append(pages, p); last == n {
			return pages, items
		}
	}
}

// checkBody checks that a body makes a valid message with those items, and
// returns the members of its result.
func checkBody(t *testing.T, b *Body, kind revision.Kind, items [][]byte) map[string]json.RawMessage {
	t.Helper()
	if b.Digest != sha256.Sum256(b.Bytes) {
		t.Fatal("the digest is not that of the bytes")
	}
	got := Items(b.Bytes, kind)
	if len(got) != b.Items || len(got) != len(items) || len(got) != len(b.Names()) {
		t.Fatalf("%d items in %q, want %d", len(got), b.Bytes, len(items))
	}
	for i := range got {
		if !bytes.Equal(got[i], items[i]) {
			t.Fatalf("item %d is %q, want %q", i, got[i], items[i])
		}
	}
	whole := AppendPrefix(nil, []byte("1"), -1, len(b.Bytes) > len("}}"))
	var message struct{ Result map[string]json.RawMessage }
	if err := json.Unmarshal(append(whole, b.Bytes...), &message); err != nil {
		t.Fatalf("%q: %v", b.Bytes, err)
	}
	whole = AppendPrefix(nil, []byte("1"), 0, len(b.Bytes) > len("}}"))
	if whole = append(whole, b.Bytes...); !json.Valid(whole) {
		t.Fatalf("not JSON: %q", whole)
	}
	return message.Result
}
