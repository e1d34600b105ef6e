package bridge

import (
	"testing"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

func TestToLegacy(t *testing.T) {
	const meta = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c"},"io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/logLevel":"info"`
	for request, want := range map[string]string{
		`{"jsonrpc":"2.0","id":"a\u0062","method":"tools/call","params":{"name":"t","arguments":{"n":1.0e+00,"id":3},"_meta":{` + meta + `,"progressToken":7}}}`: `{"jsonrpc":"2.0","id":12,"method":"tools/call","params":{"name":"t","arguments":{"n":1.0e+00,"id":3},"_meta":{"progressToken":7}}}`,
		`{"id":1,"params":{"_meta":{"x":1,` + meta + `},"name":"t"}}`:                                                                                            `{"id":12,"params":{"_meta":{"x":1},"name":"t"}}`,
		`{"id":1,"params":{"name":"t"}}`: `{"id":12,"params":{"name":"t"}}`,
	} {
		if got, err := ToLegacy([]byte(request), []byte("12")); err != nil || string(got) != want {
			t.Errorf("%s:\ngot  %s, %v\nwant %s", request, got, err, want)
		}
	}
	if got, err := ToLegacy([]byte(`{"id":1,"params":{"_meta":[]}}`), []byte("12")); err == nil {
		t.Errorf("got %s", got)
	}
}

func TestToModern(t *testing.T) {
	as := Client{Capabilities: []byte(`{"x":{}}`), Name: `n"`, Version: "1", Level: "info"}
	const common = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/logLevel":"info","io.modelcontextprotocol/clientInfo":{"name":"n\"","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"x":{}}`
	for request, want := range map[string]string{
		`{"id":1,"params":{"name":"t"}}`:                             `{"id":1,"params":{"_meta":{` + common + `},"name":"t"}}`,
		`{"id":1,"params":{"name":"t","_meta":{"progressToken":7}}}`: `{"id":1,"params":{"name":"t","_meta":{` + common + `,"progressToken":7}}}`,
	} {
		if got, err := ToModern([]byte(request), as); err != nil || string(got) != want {
			t.Errorf("%s:\ngot  %s, %v\nwant %s", request, got, err, want)
		}
	}
	as.Level, as.Name = "", ""
	got, err := ToModern([]byte(`{"params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"x"}}}`), as)
	if want := `{"params":{"_meta":{"io.modelcontextprotocol/clientCapabilities":{"x":{}},"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`; err != nil || string(got) != want {
		t.Errorf("got %s, %v; want %s", got, err, want)
	}
	if got, err := ToModern([]byte(`{"params":{"_meta":1}}`), as); err == nil {
		t.Errorf("got %s", got)
	}
}

func TestTurn(t *testing.T) {
	modern := Answer{To: revision.Modern, ID: []byte(`"me"`), Sent: []byte("12"), Method: "tools/call", Level: "warning"}
	read, quiet := modern, modern
	read.Method, quiet.Level = "resources/read", ""
	legacy := Answer{To: revision.Legacy, ID: []byte(`7`), Sent: []byte(`7`), Method: "tools/call"}
	const progress = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1}}`
	const warning = `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"warning","data":"x"}}`
	const changed = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`
	for name, tt := range map[string]struct {
		by   Answer
		data string
		want string
		m    Message
	}{
		"a result":              {modern, `{"result":{"content":[], "n":1.0},"id":12,"jsonrpc":"2.0"}`, `{"jsonrpc":"2.0","id":"me","result":{"resultType":"complete","content":[], "n":1.0}}`, Message{Final: true}},
		"one with a type":       {modern, `{"jsonrpc":"2.0","id":12,"result":{"a":1,"resultType":"x"}}`, `{"jsonrpc":"2.0","id":"me","result":{"a":1,"resultType":"complete"}}`, Message{Final: true}},
		"an empty result":       {modern, `{"jsonrpc":"2.0","id":12,"result":{}}`, `{"jsonrpc":"2.0","id":"me","result":{"resultType":"complete"}}`, Message{Final: true}},
		"a read":                {read, `{"jsonrpc":"2.0","id":12,"result":{"contents":[],"ttlMs":5000}}`, `{"jsonrpc":"2.0","id":"me","result":{"cacheScope":"private","resultType":"complete","contents":[],"ttlMs":0}}`, Message{Final: true}},
		"an error":              {modern, `{"jsonrpc":"2.0","id":12,"error":{"code":-32601,"message":"no","data":{"x":1}}}`, `{"jsonrpc":"2.0","id":"me","error":{"code":-32601,"message":"no","data":{"x":1}}}`, Message{Final: true, Code: -32601}},
		"a code as a fraction":  {modern, `{"jsonrpc":"2.0","id":12,"error":{"code":-3.2602e4,"message":"no"}}`, `{"jsonrpc":"2.0","id":"me","error":{"code":-3.2602e4,"message":"no"}}`, Message{Final: true, Code: -32602}},
		"an error without id":   {modern, `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no"}}`, `{"jsonrpc":"2.0","id":"me","error":{"code":-32000,"message":"no"}}`, Message{Final: true, Code: -32000}},
		"nothing to read":       {read, `{"jsonrpc":"2.0","id":12,"error":{"code":-32002,"message":"no","data":{"uri":"a"}}}`, `{"jsonrpc":"2.0","id":"me","error":{"code":-32602,"message":"no","data":{"uri":"a"}}}`, Message{Final: true, Code: -32602}},
		"an ambiguous result":   {modern, `{"jsonrpc":"2.0","id":12,"result":{"resultType":"a","resultType":"b"}}`, `{"jsonrpc":"2.0","id":"me","error":{"code":-32603,"message":"the server's result cannot be read with certainty: message is ambiguous: key \"resultType\" repeated, in another case or with a NUL behind it"}}`, Message{Final: true, Code: -32603}},
		"progress":              {modern, progress, progress, Message{}},
		"a message":             {modern, warning, warning, Message{}},
		"a message, not wanted": {quiet, warning, ``, Message{}},
		"a message below":       {modern, `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}`, ``, Message{}},
		"a change":              {modern, changed, ``, Message{}},
		"nonsense":              {modern, `nonsense`, ``, Message{}},
		"another's result":      {modern, `{"jsonrpc":"2.0","id":"me","result":{}}`, ``, Message{}},
		"another's error":       {modern, `{"jsonrpc":"2.0","id":"me","error":{"code":-32000,"message":"no"}}`, ``, Message{}},
		"a cancellation":        {modern, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, ``, Message{}},
		"another notification":  {modern, `{"jsonrpc":"2.0","method":"notifications/other"}`, ``, Message{}},
		"no message":            {modern, `{"jsonrpc":"2.0","id":12}`, ``, Message{}},

		"to legacy, a result":              {legacy, `{"result": {"content":[],"resultType":"complete"},"id":7,"jsonrpc":"2.0"}`, `{"result": {"content":[],"resultType":"complete"},"id":7,"jsonrpc":"2.0"}`, Message{Final: true}},
		"to legacy, no type":               {legacy, `{"jsonrpc":"2.0","id":7,"result":{}}`, `{"jsonrpc":"2.0","id":7,"result":{}}`, Message{Final: true}},
		"to legacy, input":                 {legacy, `{"jsonrpc":"2.0","id":7,"result":{"resultType":"input_required"}}`, `{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"the server asks for what a client of this revision cannot give: input_required"}}`, Message{Final: true, Code: -32603}},
		"to legacy, an error":              {legacy, `{"jsonrpc":"2.0","id":null,"error":{"code":-32602,"message":"no"}}`, `{"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"no"}}`, Message{Final: true, Code: -32602}},
		"to legacy, a message":             {legacy, warning, warning, Message{}},
		"to legacy, another's":             {legacy, `{"jsonrpc":"2.0","id":8,"result":{}}`, ``, Message{}},
		"to legacy, an error of another's": {legacy, `{"jsonrpc":"2.0","id":8,"error":{"code":-32000,"message":"no"}}`, ``, Message{}},
		"to legacy, its id":                {Answer{ID: []byte(`"a\u0062"`), Sent: []byte(`"a\u0062"`)}, `{"jsonrpc":"2.0","id":"ab","result":{}}`, `{"jsonrpc":"2.0","id":"a\u0062","result":{}}`, Message{Final: true}},
		"to legacy, two values":            {legacy, `{"jsonrpc":"2.0","id":7,"result":{}}{}`, ``, Message{}},
	} {
		got := tt.by.Translate([]byte(tt.data))
		if string(got.Bytes) != tt.want || got.Final != tt.m.Final || got.Code != tt.m.Code {
			t.Errorf("%s: got %s, %+v; want %s", name, got.Bytes, got, tt.want)
		}
	}
}
