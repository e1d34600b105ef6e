package message

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

func TestDecode(t *testing.T) {
	for name, tt := range map[string]struct {
		body string
		want Request
	}{
		"list without params": {
			`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`,
			Request{ID: []byte("1"), Method: []byte("tools/list")},
		},
		"white space": {
			" \t\r\n{ \"jsonrpc\" : \"2.0\" , \"id\" : 1 , \"method\" : \"ping\" , \"params\" : { } } \n",
			Request{ID: []byte("1"), Method: []byte("ping")},
		},
		"method after params": {
			`{"params":{"cursor":"c"},"method":"tools/list","id":"a\"b","jsonrpc":"2.0"}`,
			Request{ID: []byte(`"a\"b"`), Method: []byte("tools/list"), Cursor: []byte(`"c"`)},
		},
		"empty cursor": {
			`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":""}}`,
			Request{ID: []byte("1"), Method: []byte("tools/list"), Cursor: []byte(`""`)},
		},
		"escapes": {
			`{"jsonrp\u0063":"2.0","id":"\u0031","m\u0065thod":"tools\/list","params":{"\u0063ursor":"\u0063"}}`,
			Request{ID: []byte(`"\u0031"`), Method: []byte("tools/list"), Cursor: []byte(`"\u0063"`)},
		},
		"modern": {
			`{"jsonrpc":"2.0","id":-1500,"method":"resources/read","params":{"uri":"file:///a","_meta":{` +
				`"io.modelcontextprotocol/protocolVersion":"2026\u002d07-28","io.modelcontextprotocol/clientCapabilities":{ "a":{}},` +
				`"io.modelcontextprotocol/clientInfo":{"name":"n","version":"1","x":2},"io.modelcontextprotocol/logLevel":"debug",` +
				`"progressToken":1,"traceparent":"","tracestate":"","baggage":"a=\u0062"}}}`,
			Request{
				ID: []byte("-1500"), Method: []byte("resources/read"), URI: []byte(`"file:///a"`),
				Meta: Meta{Revision: []byte("2026-07-28"), Capabilities: []byte(`{ "a":{}}`), Baggage: []byte("a=b")},
			},
		},
		"all of a client": {
			`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{"progressToken":-9007199254740991,` +
				`"io.modelcontextprotocol/logLevel":"emergency","io.modelcontextprotocol/clientInfo":{"icons":[` +
				`{"src":"s","mimeType":"m","sizes":["a","b"],"theme":"dark","x":1},{"theme":"light","sizes":[],"src":""}],` +
				`"title":"t","description":"d","websiteUrl":"u","x":[],"version":"1","name":"n"}}}}`,
			Request{ID: []byte("1"), Method: []byte("ping")},
		},
		"largest id":         {`{"jsonrpc":"2.0","id":9007199254740991,"method":"ping"}`, Request{ID: []byte(maxSafe), Method: []byte("ping")}},
		"least id":           {`{"jsonrpc":"2.0","id":-9007199254740991,"method":"ping"}`, Request{ID: []byte("-" + maxSafe), Method: []byte("ping")}},
		"string like it":     {`{"jsonrpc":"2.0","id":"9007199254740992","method":"ping"}`, Request{ID: []byte(`"9007199254740992"`), Method: []byte("ping")}},
		"larger id":          {`{"jsonrpc":"2.0","id":9007199254740992,"method":"ping"}`, Request{ID: []byte("9007199254740992"), Method: []byte("ping"), UnsafeInteger: true}},
		"lesser id":          {`{"jsonrpc":"2.0","id":-9007199254740992,"method":"ping"}`, Request{ID: []byte("-9007199254740992"), Method: []byte("ping"), UnsafeInteger: true}},
		"much larger id":     {`{"jsonrpc":"2.0","id":10000000000000000,"method":"ping"}`, Request{ID: []byte("10000000000000000"), Method: []byte("ping"), UnsafeInteger: true}},
		"larger token":       {`{"jsonrpc":"2.0","method":"ping","params":{"_meta":{"progressToken":9007199254740992}}}`, Request{Method: []byte("ping"), UnsafeInteger: true}},
		"string for a token": {`{"jsonrpc":"2.0","method":"ping","params":{"_meta":{"progressToken":"9007199254740992"}}}`, Request{Method: []byte("ping")}},
		"call": {
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"Method":1,"method":2,"method":3}}}`,
			Request{ID: []byte("1"), Method: []byte("tools/call"), Name: []byte(`"t"`), ExtraParams: true},
		},
		"notification": {
			`{"jsonrpc":"2.0","method":"notifications/initialized","params":{}}`,
			Request{Method: []byte("notifications/initialized")},
		},
		"empty method": {
			`{"jsonrpc":"2.0","method":""}`,
			Request{Method: []byte{}},
		},
		"result": {
			`{"jsonrpc":"2.0","id":3,"result":{"result":1}}`,
			Request{ID: []byte("3")},
		},
		"error": {
			`{"jsonrpc":"2.0","id":3,"error":{"code":1,"message":"m"}}`,
			Request{ID: []byte("3")},
		},
		"extra member": {
			`{"jsonrpc":"2.0","id":1,"method":"ping","x":{"id":2},"x":1}`,
			Request{ID: []byte("1"), Method: []byte("ping"), ExtraMembers: true},
		},
		"extra param": {
			`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"limit":5}}`,
			Request{ID: []byte("1"), Method: []byte("ping"), ExtraParams: true},
		},
		"retried with input": {
			`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"requestState":"s"}}`,
			Request{ID: []byte("1"), Method: []byte("resources/read"), ExtraParams: true},
		},
		"extra meta": {
			`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{"com.example/x":null}}}`,
			Request{ID: []byte("1"), Method: []byte("ping"), Meta: Meta{Extra: true}},
		},
		"long names": {
			`{"jsonrpc":"2.0","id":1,"method":"ping","` + strings.Repeat(`\u006d`, 500) + `":1}`,
			Request{ID: []byte("1"), Method: []byte("ping"), ExtraMembers: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := Request{Name: []byte("left over"), ExtraParams: true}
			body := []byte(tt.body)
			if err := Decode(body, &got); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %s\nwant %s", show(got), show(tt.want))
			}
			if string(body) != tt.body {
				t.Error("the body was changed")
			}
		})
	}
}

func TestDecodeRefuses(t *testing.T) {
	request := func(members string) string { return `{"jsonrpc":"2.0","id":1,"method":"tools/list"` + members + `}` }
	meta := func(members string) string { return request(`,"params":{"_meta":{` + members + `}}`) }
	client := func(members string) string {
		return meta(`"io.modelcontextprotocol/clientInfo":{"name":"n","version":"1"` + members + `}`)
	}
	for name, tt := range map[string]struct {
		body string
		want error
	}{
		"batch":           {` [{"jsonrpc":"2.0","id":1,"method":"tools/list"}]`, ErrBatch},
		"empty":           {``, ErrInvalid},
		"string":          {`"a"`, ErrInvalid},
		"broken":          {`{"jsonrpc":"2.0","id":1,"method":"tools/list"`, ErrInvalid},
		"mismatch":        {`{"jsonrpc":"2.0","id":1,"method":"tools/list"]`, ErrInvalid},
		"missing comma":   {`{"jsonrpc":"2.0" "id":1,"method":"tools/list"}`, ErrInvalid},
		"byte order mark": {"\ufeff" + request(""), ErrInvalid},
		"trailing value":  {request("") + "{}", ErrInvalid},
		"trailing NUL":    {request("") + "\x00", ErrInvalid},
		"trailing comma":  {request(","), ErrInvalid},
		"name no string":  {request(`,1:2`), ErrInvalid},
		"bad UTF-8":       {request(",\"params\":{\"cursor\":\"\xff\"}"), ErrInvalid},
		"lone surrogate":  {request(`,"params":{"cursor":"\ud800"}`), ErrInvalid},
		"bad UTF-8 deep":  {request(",\"params\":{\"arguments\":{\"a\":[\"\xc0\x80\"]}}"), ErrInvalid},
		"NaN deep":        {request(`,"params":{"arguments":{"a":[NaN]}}`), ErrInvalid},
		"too deep":        {request(`,"params":{"arguments":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + "}"), ErrInvalid},

		"no jsonrpc":           {`{"id":1,"method":"tools/list"}`, ErrInvalid},
		"jsonrpc 1.0":          {`{"jsonrpc":"1.0","id":1,"method":"tools/list"}`, ErrInvalid},
		"jsonrpc number":       {`{"jsonrpc":2.0,"id":1,"method":"tools/list"}`, ErrInvalid},
		"nothing":              {`{"jsonrpc":"2.0","id":1}`, ErrInvalid},
		"method and result":    {request(`,"result":{}`), ErrInvalid},
		"method and error":     {request(`,"error":{}`), ErrInvalid},
		"result and error":     {`{"jsonrpc":"2.0","id":1,"result":{},"error":{}}`, ErrInvalid},
		"id null":              {`{"jsonrpc":"2.0","id":null,"method":"tools/list"}`, ErrInvalid},
		"id fractional":        {`{"jsonrpc":"2.0","id":1.5,"method":"tools/list"}`, ErrInvalid},
		"id with exponent":     {`{"jsonrpc":"2.0","id":1e3,"method":"tools/list"}`, ErrInvalid},
		"id object":            {`{"jsonrpc":"2.0","id":{},"method":"tools/list"}`, ErrInvalid},
		"id true":              {`{"jsonrpc":"2.0","id":true,"method":"tools/list"}`, ErrInvalid},
		"method number":        {`{"jsonrpc":"2.0","id":1,"method":1}`, ErrInvalid},
		"method null":          {`{"jsonrpc":"2.0","id":1,"method":null}`, ErrInvalid},
		"params null":          {request(`,"params":null`), ErrInvalid},
		"params array":         {request(`,"params":[]`), ErrInvalid},
		"params broken":        {request(`,"params":nul`), ErrInvalid},
		"cursor null":          {request(`,"params":{"cursor":null}`), ErrInvalid},
		"uri number":           {request(`,"params":{"uri":1}`), ErrInvalid},
		"name object":          {request(`,"params":{"name":{}}`), ErrInvalid},
		"meta null":            {request(`,"params":{"_meta":null}`), ErrInvalid},
		"revision number":      {meta(`"io.modelcontextprotocol/protocolVersion":20260728`), ErrInvalid},
		"capabilities array":   {meta(`"io.modelcontextprotocol/clientCapabilities":[]`), ErrInvalid},
		"capabilities null":    {meta(`"io.modelcontextprotocol/clientCapabilities":null`), ErrInvalid},
		"client info string":   {meta(`"io.modelcontextprotocol/clientInfo":"x"`), ErrInvalid},
		"client info half":     {meta(`"io.modelcontextprotocol/clientInfo":{"name":"x"}`), ErrInvalid},
		"client info number":   {meta(`"io.modelcontextprotocol/clientInfo":{"name":"x","version":1}`), ErrInvalid},
		"client info repeated": {meta(`"io.modelcontextprotocol/clientInfo":{"name":"x","version":"1","name":"y"}`), ErrAmbiguous},
		"title number":         {client(`,"title":5`), ErrInvalid},
		"title null":           {client(`,"title":null`), ErrInvalid},
		"description object":   {client(`,"description":{}`), ErrInvalid},
		"website number":       {client(`,"websiteUrl":1`), ErrInvalid},
		"title repeated":       {client(`,"title":"a","title":"b"`), ErrAmbiguous},
		"icons object":         {client(`,"icons":{}`), ErrInvalid},
		"icons null":           {client(`,"icons":null`), ErrInvalid},
		"icon string":          {client(`,"icons":["a"]`), ErrInvalid},
		"icon empty":           {client(`,"icons":[{}]`), ErrInvalid},
		"icon src number":      {client(`,"icons":[{"src":"a"},{"src":5}]`), ErrInvalid},
		"icon type number":     {client(`,"icons":[{"src":"a","mimeType":5}]`), ErrInvalid},
		"icon sizes string":    {client(`,"icons":[{"src":"a","sizes":"any"}]`), ErrInvalid},
		"icon size number":     {client(`,"icons":[{"src":"a","sizes":["any",1]}]`), ErrInvalid},
		"icon theme":           {client(`,"icons":[{"src":"a","theme":"blue"}]`), ErrInvalid},
		"icon src repeated":    {client(`,"icons":[{"src":"a","src":"b"}]`), ErrAmbiguous},
		"icon broken":          {client(`,"icons":[{"src":"a"]`), ErrInvalid},
		"token object":         {meta(`"progressToken":{}`), ErrInvalid},
		"token fraction":       {meta(`"progressToken":1.5`), ErrInvalid},
		"token with exponent":  {meta(`"progressToken":1e3`), ErrInvalid},
		"token true":           {meta(`"progressToken":true`), ErrInvalid},
		"log level unknown":    {meta(`"io.modelcontextprotocol/logLevel":"zz"`), ErrInvalid},
		"log level capitals":   {meta(`"io.modelcontextprotocol/logLevel":"DEBUG"`), ErrInvalid},
		"baggage number":       {meta(`"baggage":1`), ErrInvalid},
		"log level number":     {meta(`"io.modelcontextprotocol/logLevel":1`), ErrInvalid},

		"method repeated":         {request(`,"method":"tools/list"`), ErrAmbiguous},
		"method escaped":          {request(`,"\u006dethod":"tools/call"`), ErrAmbiguous},
		"method in capitals":      {request(`,"METHOD":"tools/call"`), ErrAmbiguous},
		"only in capitals":        {`{"jsonrpc":"2.0","id":1,"Method":"tools/list"}`, ErrAmbiguous},
		"id in capitals, escaped": {request(`,"\u0049d":2`), ErrAmbiguous},
		"params with long s":      {request(`,"paramſ":{"cursor":"c"}`), ErrAmbiguous},
		"params with long s, esc": {request(`,"param\u017f":{"cursor":"c"}`), ErrAmbiguous},
		"result variant":          {request(`,"Result":{}`), ErrAmbiguous},
		"params repeated":         {request(`,"params":{},"params":{}`), ErrAmbiguous},
		"cursor repeated":         {request(`,"params":{"cursor":"a","cursor":"a"}`), ErrAmbiguous},
		"cursor variant":          {request(`,"params":{"Cursor":"a"}`), ErrAmbiguous},
		"arguments repeated":      {request(`,"params":{"arguments":{},"arguments":{}}`), ErrAmbiguous},
		"request state variant":   {request(`,"params":{"requeststate":""}`), ErrAmbiguous},
		"token with Kelvin sign":  {meta(`"progressToKen":1`), ErrAmbiguous},
		"revision repeated": {
			meta(`"io.modelcontextprotocol/protocolVersion":"a","io.modelcontextprotocol/protocolVersion":"b"`), ErrAmbiguous,
		},
		"revision variant": {meta(`"io.modelcontextprotocol/protocolversion":"a"`), ErrAmbiguous},
	} {
		t.Run(name, func(t *testing.T) {
			req := Request{Method: []byte("left over")}
			err := Decode([]byte(tt.body), &req)
			if !errors.Is(err, tt.want) {
				t.Errorf("got error %v, want %v", err, tt.want)
			}
			if !reflect.DeepEqual(req, Request{}) {
				t.Errorf("request is not reset: %s", show(req))
			}
		})
	}
}

// Every known key is recognized however it is written.
func TestDecodeKeySpellings(t *testing.T) {
	around := map[string]keyset{
		`{%}`:                      topKeys,
		`{"params":{%}}`:           paramKeys,
		`{"params":{"_meta":{%}}}`: metaKeys,
	}
	for frame, known := range around {
		for _, key := range known {
			variants := []string{
				strings.ToUpper(string(key)),
				escapeAll(strings.ToUpper(string(key))),
			}
			if strings.Contains(string(key), "s") {
				variants = append(variants, strings.ReplaceAll(string(key), "s", "ſ"), strings.ReplaceAll(string(key), "s", `\u017F`))
			}
			if strings.Contains(string(key), "k") {
				variants = append(variants, strings.ReplaceAll(string(key), "k", "\u212a"))
			}
			for _, variant := range variants {
				body := strings.ReplaceAll(frame, "%", `"`+variant+`":0`)
				if err := Decode([]byte(body), new(Request)); !errors.Is(err, ErrAmbiguous) {
					t.Errorf("%s: got error %v, want ErrAmbiguous", body, err)
				}
			}
			// Escapes alone change nothing: the value is what is wrong.
			body := strings.ReplaceAll(frame, "%", `"`+escapeAll(string(key))+`":[`)
			if err := Decode([]byte(body), new(Request)); !errors.Is(err, ErrInvalid) {
				t.Errorf("%s: got error %v, want ErrInvalid", body, err)
			}
		}
	}
}

func TestDecodeIDLength(t *testing.T) {
	for length, want := range map[int]error{MaxID: nil, MaxID + 1: ErrInvalid} {
		id := `"` + strings.Repeat("x", length-2) + `"`
		err := Decode([]byte(`{"jsonrpc":"2.0","id":`+id+`,"method":"ping"}`), new(Request))
		if !errors.Is(err, want) {
			t.Errorf("id of %d bytes: got error %v, want %v", length, err, want)
		}
	}
}

// Errors are logged: they must not quote what a client sent.
func TestDecodeErrorsQuoteNothing(t *testing.T) {
	for _, body := range []string{
		`{"jsonrpc":"2.0","secret":`,
		`{"jsonrpc":"2.0","secret":secret}`,
		`{"jsonrpc":"2.0","params":{"arguments":{"secret":"\ud800"}}}`,
		`{"jsonrpc":"secret"}`,
		`{"jsonrpc":"2.0","params":{"cursor":"a","cursor":"secret"}}`,
	} {
		err := Decode([]byte(body), new(Request))
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: error %v", body, err)
		}
	}
}

func TestDecodeAllocatesNothing(t *testing.T) {
	s := scanners.New().(*scanner)
	for _, body := range []string{legacyList, modernList} {
		data := []byte(body)
		var req Request
		allocs := testing.AllocsPerRun(100, func() {
			s.begin(data)
			if err := s.request(&req); err != nil {
				t.Fatal(err)
			}
			s.reset()
		})
		if allocs != 0 {
			t.Errorf("%s: %v allocations", body, allocs)
		}
	}
}

// A scanner in the pool must not keep the body alive.
func TestScannerLetsGo(t *testing.T) {
	s := scanners.New().(*scanner)
	s.begin([]byte(modernList))
	if err := s.request(new(Request)); err != nil {
		t.Fatal(err)
	}
	s.reset()
	if s.text != nil || s.src.Cap() != 0 || cap(s.dec.UnreadBuffer()) != 0 {
		t.Error("the scanner keeps the text")
	}
}
