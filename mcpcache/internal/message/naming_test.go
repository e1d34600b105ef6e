package message

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

func TestParseNaming(t *testing.T) {
	call := func(method, params string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":"x","method":%q,"params":%s}`, method, params)
	}
	for body, want := range map[string][]Named{
		call("tools/call", `{"name":"a","arguments":{"name":"b","name":"c"}}`):                {{revision.Tools, "a"}},
		call("tools/call", `{"name":"\u0061\n"}`):                                             {{revision.Tools, "a\n"}},
		call("prompts/get", `{"name":"p"}`):                                                   {{revision.Prompts, "p"}},
		call("resources/read", `{"uri":"u:1","name":"x"}`):                                    {{revision.Resources, "u:1"}},
		call("resources/subscribe", `{"uri":"u:1"}`):                                          {{revision.Resources, "u:1"}},
		call("resources/unsubscribe", `{"uri":"u:1"}`):                                        {{revision.Resources, "u:1"}},
		call("completion/complete", `{"ref":{"type":"ref/prompt","name":"p"}}`):               {{revision.Prompts, "p"}},
		call("completion/complete", `{"ref":{"type":"ref/resource","uri":"u:{x}"}}`):          {{revision.ResourceTemplates, "u:{x}"}},
		call("subscriptions/listen", `{"notifications":{"resourceSubscriptions":["a","b"]}}`): {{revision.Resources, "a"}, {revision.Resources, "b"}},
		call("subscriptions/listen", `{"notifications":{"toolsListChanged":true}}`):           nil,
		call("subscriptions/listen", `{}`):                                                    nil,
		call("tools/list", `{"cursor":"c"}`):                                                  nil,
		call("tools/call", `{"name":"a","\u0000name":"b","nam\u0000e":"c"}`):                  {{revision.Tools, "a"}},
		call("ping", `{"name":"a"}`):                                                          nil,
		`{"jsonrpc":"2.0","method":"ping"}`:                                                   nil,
		`{"jsonrpc":"2.0","id":1,"result":{"name":"a"}}`:                                      nil,
	} {
		found, err := ParseNaming([]byte(body))
		if err != nil || len(found) != 1 || !slices.Equal(found[0].Items, want) {
			t.Errorf("%s: %+v, error %v, want %v", body, found, err, want)
			continue
		}
		// The path leads to the name, in a message that names one item.
		if path := found[0].Path(); len(want) != 1 {
			if path != nil {
				t.Errorf("%s: the path is %q", body, path)
			}
		} else if got := StringAt([]byte(body), path...); got != want[0].Name {
			t.Errorf("%s: the path %q leads to %q", body, path, got)
		}
	}
	batch := "[" + call("tools/call", `{"name":"a"}`) + "," + call("prompts/get", `{"name":"b"}`) + "]"
	if found, err := ParseNaming([]byte(batch)); err != nil || len(found) != 2 || found[1].Items[0] != (Named{revision.Prompts, "b"}) {
		t.Errorf("a batch: %+v, error %v", found, err)
	}
}

func TestNamedInHeader(t *testing.T) {
	for method, want := range map[string]string{
		"tools/call": "name", "prompts/get": "name", "resources/read": "uri",
		"resources/subscribe": "", "completion/complete": "", "tools/list": "", "": "",
	} {
		if got, ok := NamedInHeader(method); ok != (want != "") || ok && got != want {
			t.Errorf("%q: got %q, %v; want %q", method, got, ok, want)
		}
	}
}

func TestNamingIsCertain(t *testing.T) {
	for body, want := range map[string]error{
		`{"id":1,"method":"tools/call","params":{"name":"a","name":"b"}}`:                                                           ErrAmbiguous,
		`{"id":1,"method":"tools/call","params":{"name":"a","Name":"b"}}`:                                                           ErrAmbiguous,
		`{"id":1,"method":"tools/call","method":"ping","params":{"name":"a"}}`:                                                      ErrAmbiguous,
		`{"id":1,"method":"ping","Method":"tools/call","params":{"name":"a"}}`:                                                      ErrAmbiguous,
		`{"id":1,"method":"tools/call","params":{"name":"a"},"params":{"name":"b"}}`:                                                ErrAmbiguous,
		`{"id":1,"method":"tools/call","params":{"x":1,"name":"a","x":2}}`:                                                          ErrAmbiguous,
		`{"id":1,"method":"resources/read","params":{"uri":"a","urI":"b"}}`:                                                         ErrAmbiguous,
		`{"id":1,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","type":"ref/resource","uri":"a","name":"b"}}}`: ErrAmbiguous,
		`{"id":1,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"a","uri":"b"}}}`:                       ErrAmbiguous,
		`{"id":1,"method":"completion/complete","params":{"ref":{"uri":"a","type":"ref/resource","name":"b"}}}`:                     ErrAmbiguous,
		`{"id":1,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"a","uri":null}}}`:                      ErrAmbiguous,
		`{"id":1,"method":"tools/call","params":{"name":"a","name\u0000":"b"}}`:                                                     ErrAmbiguous,
		`{"id":1,"method":"tools/call","params":{"name":"a","NAME\u0000\u0000x":"b"}}`:                                              ErrAmbiguous,
		`{"id":1,"method":"tools/call","params":{"name":"a","name\u0000` + strings.Repeat("x", 300) + `":"b"}}`:                     ErrAmbiguous,
		`{"id":1,"method":"tools/call","params":{"name":"a"},"params\u0000":{"name":"b"}}`:                                          ErrAmbiguous,
		`{"id":1,"method\u0000":"tools/call","method":"ping","params":{"name":"a"}}`:                                                ErrAmbiguous,
		`{"id":1,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"a","uri\u0000":"b"}}}`:                 ErrAmbiguous,
		`{"id":1,"method":"tools/call","params":{"name":"a\u0000b"}}`:                                                               ErrAmbiguous,
		`{"id":1,"method":"resources/read","params":{"uri":"a\u0000"}}`:                                                             ErrAmbiguous,
		`{"id":1,"method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":["a","b\u0000"]}}}`:             ErrAmbiguous,
		`{"id":1,"method":"tools/call","params":{"name":1}}`:                                                                        ErrInvalid,
		`{"id":1,"method":"tools/call","params":{}}`:                                                                                ErrInvalid,
		`{"id":1,"method":"tools/call"}`:                                                                                            ErrInvalid,
		`{"id":1,"method":"tools/call","params":["a"]}`:                                                                             ErrInvalid,
		`{"id":1,"method":"tools/call","params":{"name":"a"}} {}`:                                                                   ErrInvalid,
		"{\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"\xff\"}}":                                                       ErrInvalid,
		`{"id":1,"method":5}`:       ErrInvalid,
		`{"id":{},"method":"ping"}`: ErrInvalid,
		`{"id":1,"method":"completion/complete","params":{"ref":{"type":"ref/tool","name":"b"}}}`:           ErrInvalid,
		`{"id":1,"method":"completion/complete","params":{"ref":{"name":"b"}}}`:                             ErrInvalid,
		`{"id":1,"method":"completion/complete","params":{}}`:                                               ErrInvalid,
		`{"id":1,"method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":[1]}}}`: ErrInvalid,
		`{"id":1,"method":"tools/run","params":{"name":"a"}}`:                                               ErrMethod,
		`{"id":1,"method":"Tools/Call","params":{"name":"a"}}`:                                              ErrMethod,
		`{"id":1,"method":"resources/templates","params":{"uri":"a"}}`:                                      ErrMethod,
		`[{"id":1,"method":"ping"},{"id":2,"method":"tools/run"}]`:                                          ErrMethod,
		`[{"id":1,"method":"ping"},[]]`:                                                                     ErrInvalid,
		`"x"`:                                                                                               ErrInvalid,
		``:                                                                                                  ErrInvalid,
	} {
		if found, err := ParseNaming([]byte(body)); !errors.Is(err, want) {
			t.Errorf("%s: %+v, error %v, want %v", body, found, err, want)
		}
	}
	found, err := ParseNaming([]byte(`{"id":7,"method":"tools/call","params":{"name":"a","Name":"b"}}`))
	if err == nil || len(found) != 1 || string(found[0].ID) != "7" {
		t.Errorf("of what is ambiguous the id is not known: %+v", found)
	}
}

// TestMembersAreLimited has objects with as many members as are allowed, and with one
// more; whether one is repeated is known of all of them.
func TestMembersAreLimited(t *testing.T) {
	call := func(members int, last string) []byte {
		params := `"name":"a"`
		for n := 2; n < members; n++ {
			params += fmt.Sprintf(`,"%d":0`, n)
		}
		return []byte(`{"id":1,"method":"tools/call","params":{` + params + `,"` + last + `":0}}`)
	}
	for _, members := range []int{3, 12, 13, 14, 100, maxMembers} {
		if _, err := ParseNaming(call(members, "last")); err != nil {
			t.Errorf("%d members: %v", members, err)
		}
		for _, repeated := range []string{"name", "2", fmt.Sprint(members - 1)} {
			if _, err := ParseNaming(call(members, repeated)); !errors.Is(err, ErrAmbiguous) {
				t.Errorf("%d members, one twice: %v", members, err)
			}
		}
	}
	if _, err := ParseNaming(call(maxMembers+1, "last")); !errors.Is(err, ErrInvalid) {
		t.Errorf("a member too many: %v", err)
	}
}

// Servers may drop white space and what cannot be seen from the name of a method.
func TestMethodsWithInvisibleCharacters(t *testing.T) {
	for _, c := range []string{`\t`, " ", `\r\n`, `\u0000`, `\u001f`, `\u007f`, `\u0085`, `\u00a0`, `\u00ad`, `\u200b`, `\u2028`, `\u3000`, `\ufeff`, `\ue000`} {
		for _, method := range []string{c + "tools/call", c + c + "Tools/Call", "tools/call" + c, "resources" + c + "/read", "to" + c + "ols/call", c + "completion/complete", c + "tools/list"} {
			if found, err := ParseNaming([]byte(`{"id":1,"method":"` + method + `","params":{"name":"a"}}`)); !errors.Is(err, ErrMethod) {
				t.Errorf("%s: %+v, error %v", method, found, err)
			}
		}
	}
	for _, method := range []string{" ping", `\tinitialize`, "x tools/call", "", " "} {
		if found, err := ParseNaming([]byte(`{"id":1,"method":"` + method + `"}`)); err != nil {
			t.Errorf("%q: %+v, error %v", method, found, err)
		}
	}
}

func TestMayBeRPC(t *testing.T) {
	for body, want := range map[string]bool{
		`{"method":"a"}`: true, `{"jsonrpc":"2.0"}`: true, ` [{`: true, `[{"method":"a"}]`: true, `[1,{"a":1},{"jsonrpc":1}]`: true, `[[{"method":"a"}]]`: true, `[1]{"method":"a"}`: true,
		`[]`: false, `[1,2]`: false, `[{"a":1},"b"]`: false, `{"a":1`: true, "\ufeff{\"method\":\"a\"}": true,
		"\x00{\x00}": true, "\xfe\xff\x00{": true, "\xff\xfe{\x00": true, " \x00{\x00": true, "\u00a0{\"id\":1,}": true, "/**/{}//": true,
		"//\n{}\n\n{": true, `{"a":1}`: false, `grant_type=x`: false, ``: false, ` `: false, `"{"`: false, `/mcp`: false, "\x89PNG{": false,
	} {
		if got := MayBeRPC([]byte(body)); got != want {
			t.Errorf("%q: %v", body, got)
		}
	}
	for beginning, want := range map[string]bool{
		"": true, " \x00": true, ` {"a`: true, "[": true, "/*": true, "\xef\xbb": true, "a{": false, "PK\x03\x04{": false, "--form": false,
	} {
		if got := MayBecomeJSON([]byte(beginning)); got != want {
			t.Errorf("what begins with %q may become JSON: %v", beginning, got)
		}
	}
	for body, want := range map[string]string{
		`{"id":1,"method":"tasks/get","params":{"taskId":"t"}}`: "t", `{"id":1,"method":"tasks/get","params":{"taskId":1}}`: "",
		`{"id":1,"method":"tasks/list"}`: "", `{"id":1,"method":"ping","params":{"taskId":"t"}}`: "",
	} {
		if found, err := ParseNaming([]byte(body)); err != nil || found[0].Task != want {
			t.Errorf("%s: %+v, error %v, want the task %q", body, found, err, want)
		}
	}
}

// FuzzParseNaming compares with a reader of all tokens, for which the same must be
// certain and mean the same, and with one that takes names in any case, and the last of
// several: what is certain means the same to it, too.
func FuzzParseNaming(f *testing.F) {
	f.Add([]byte(`{"id":1,"method":"tools/call","params":{"name":"a","arguments":{}}}`))
	f.Add([]byte(`{"id":1,"method":"resources/read","params":{"uri":"a"}}`))
	f.Add([]byte(`{"id":1,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"p"}}}`))
	f.Add([]byte(`{"id":1,"method":"completion/complete","params":{"ref":{"type":"ref/resource","uri":"u","name":"p"}}}`))
	f.Add([]byte(`{"id":1,"method":"\u00a0tools/c\u0378all","params":{"name":"a"}}`))
	f.Add([]byte(`{"id":1,"method":"tasks/get","params":{"taskId":"t"}}`))
	f.Add([]byte(`{"id":"\ud83d\ude00","method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":["a","\u0062"]}}}`))
	f.Add([]byte(`[{"id":1,"method":"prompts/get","params":{"n\u0061me":"a"}},{"method":"ping"},{"id":2,"result":{}}]`))
	f.Fuzz(func(t *testing.T, body []byte) {
		found, err := ParseNaming(body)
		want, certain := refNaming(body)
		if certain != (err == nil) {
			t.Fatalf("%q: %+v, error %v; by its tokens %+v, certain: %t", body, found, err, want, certain)
		}
		if err != nil {
			return
		}
		if !slices.EqualFunc(found, want, func(a, b Naming) bool {
			return string(a.ID) == string(b.ID) && a.Method == b.Method && a.Task == b.Task && slices.Equal(a.Items, b.Items)
		}) {
			t.Fatalf("%q: %+v, by its tokens %+v", body, found, want)
		}
		if strings.HasPrefix(strings.TrimSpace(string(body)), "[") {
			return
		}
		checkLastNamed(t, body, found[0])
	})
}

// checkLastNamed fails unless a reader that takes names in any case, and the last of
// several, finds the same item.
func checkLastNamed(t *testing.T, body []byte, found Naming) {
	var other struct {
		Method any
		Params json.RawMessage
	}
	if err := json.Unmarshal(body, &other); err != nil {
		t.Fatalf("%q is certain, and no JSON: %v", body, err)
	}
	method, _ := other.Method.(string)
	if found.Method != method {
		t.Errorf("%q: %q, and to others %q", body, found.Method, method)
	}
	var params struct {
		Name, URI any
		Ref       struct{ Type, Name, URI any }
	}
	_ = json.Unmarshal(other.Params, &params)
	var want any
	switch method {
	case "tools/call", "prompts/get":
		want = params.Name
	case "resources/read", "resources/subscribe", "resources/unsubscribe":
		want = params.URI
	case "completion/complete":
		if want = params.Ref.Name; found.Items[0].Kind == revision.ResourceTemplates {
			want = params.Ref.URI
		}
	default:
		return
	}
	if len(found.Items) != 1 || want != any(found.Items[0].Name) {
		t.Errorf("%q: %+v, and to others %q", body, found.Items, want)
	}
}
