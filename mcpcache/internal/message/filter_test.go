package message

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// hiding is a filter that hides what is called hidden, and tells of nothing but what is open.
func hiding() Filter {
	return Filter{
		Keep:  func(_ revision.Kind, item []byte) bool { return !bytes.Contains(item, []byte("hidden")) },
		Tells: func(uri string) bool { return uri == "x:open" },
	}
}

// What is not to be shared says so; what says nothing does only if it has to.
func TestPrivateResults(t *testing.T) {
	f := hiding()
	f.Private = func(k revision.Kind) bool { return k == revision.Tools || k == revision.Reads }
	for data, want := range map[string][2]string{ // as it is, and with AddScope
		`{"id":1,"result":{"tools":[{"name":"hidden"}],"cacheScope":"public"}}`:   {`{"id":1,"result":{"tools":[],"cacheScope":"private"}}`, ""},
		`{"id":1,"result":{"cacheScope":"private","tools":[{"name":"a"}],"x":1}}`: {`{"id":1,"result":{"cacheScope":"private","tools":[{"name":"a"}],"x":1}}`, ""},
		`{"id":1,"result":{"tools":[]}}`:                                          {`{"id":1,"result":{"tools":[]}}`, `{"id":1,"result":{"tools":[],"cacheScope":"private"}}`},
		`{"id":1,"result":{"contents":[]}}`:                                       {`{"id":1,"result":{"contents":[]}}`, `{"id":1,"result":{"contents":[],"cacheScope":"private"}}`},
		`{"id":1,"result":{"prompts":[],"cacheScope":"public"}}`:                  {`{"id":1,"result":{"prompts":[],"cacheScope":"public"}}`, ""},
		`{"id":1,"result":{"cacheScope":"public"}}`:                               {`{"id":1,"result":{"cacheScope":"public"}}`, ""},
		`{"id":1,"result":{}}`:                                                    {`{"id":1,"result":{}}`, ""},
	} {
		for i, add := range []bool{false, true} {
			f.AddScope = add
			if want[i] == "" {
				want[i] = want[0]
			}
			if got, err := f.Apply([]byte(data)); err != nil || string(got) != want[i] {
				t.Errorf("%s, added: %v\ngot  %s, error %v\nwant %s", data, add, got, err, want[i])
			}
		}
	}
}

func TestFilter(t *testing.T) {
	for data, want := range map[string]string{
		`{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"hidden"}, {"name": "a"} ,{"name":"b"}],"x":1.0}}`: `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name": "a"},{"name":"b"}],"x":1.0}}`,
		`{"result":{"prompts":[{"name":"hidden"}]},"id":1}`:                                                    `{"result":{"prompts":[]},"id":1}`,
		`{"id":1,"result":{"cacheScope":"public","resources":[{"uri":"u","name":"hidden"}]}}`:                  `{"id":1,"result":{"cacheScope":"public","resources":[]}}`,
		`{"id":1,"result":{"resourceTemplates":[{"uriTemplate":"hidden"},{"uriTemplate":"t"}]}}`:               `{"id":1,"result":{"resourceTemplates":[{"uriTemplate":"t"}]}}`,
		`{"id":1,"result":{"tools":[{"name":"hidden"}],"prompts":[{"name":"hidden"}]}}`:                        `{"id":1,"result":{"tools":[],"prompts":[]}}`,
		`{"id":1,"result":{"tools":[{},1,null,{"name":1},{"name":""},{"name":"a","name":"b"}]}}`:               `{"id":1,"result":{"tools":[]}}`,
		`[{"id":1,"result":{}}, {"id":2,"result":{"tools":[{"name":"hidden"}]}}]`:                              `[{"id":1,"result":{}},{"id":2,"result":{"tools":[]}}]`,
	} {
		if got, err := hiding().Apply([]byte(data)); err != nil || string(got) != want {
			t.Errorf("%s\ngot  %s, error %v\nwant %s", data, got, err, want)
		}
	}
	for _, data := range []string{
		` {"id":1, "result":{"content":[{"tools":"hidden"}]}} `, `{"id":1,"error":{"code":1,"message":"hidden"}}`, `{"method":"x","params":{"tools":[]}}`,
		`[ {"id":1,"result":{}} ]`, `{"id":1,"result":[{"tools":[]}]}`, `{"id":1,"result":{"tools":[ {"name":"a"} , {"name":"b"} ], "prompts":[ ]}}`,
	} {
		if got, err := hiding().Apply([]byte(data)); err != nil || string(got) != data {
			t.Errorf("%s has nothing to hide, and becomes %s, error %v", data, got, err)
		}
	}
	const odd = `[{"title":"x"}, {"id":1,"result":{"tools":[{"name":"hidden"}]}}]`
	if got, err := hiding().Apply([]byte(odd)); !errors.Is(err, ErrNoMessage) || strings.Contains(string(got), "hidden") {
		t.Errorf("with what is no message: %s, error %v", got, err)
	}
	const notice = `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x:%s"}}`
	open, closed := fmt.Sprintf(notice, "open"), fmt.Sprintf(notice, "hidden")
	for data, want := range map[string]string{
		open: open, closed: "", "[" + closed + "]": "", "[" + closed + ", " + open + "]": "[" + open + "]",
		strings.Replace(closed, "method", `m\u0065thod`, 1): "", strings.Replace(closed, "hidden", `hid\u0064en`, 1): "",
		strings.Replace(closed, `"params":{"uri":"x:hidden"}`, `"x":1`, 1): "", strings.Replace(open, `"x:open"`, `["x:open"]`, 1): "",
		strings.Replace(closed, "updated", "list_changed", 1): strings.Replace(closed, "updated", "list_changed", 1),
	} {
		if got, err := hiding().Apply([]byte(data)); err != nil || string(got) != want || (got == nil) != (want == "") {
			t.Errorf("%s becomes %s, error %v", data, got, err)
		}
	}
	both := strings.Replace(open, `"params"`, `"result":{"tools":[{"name":"hidden"}]},"params"`, 1)
	if got, err := hiding().Apply([]byte(both)); err != nil || strings.Contains(string(got), "hidden") {
		t.Errorf("a notice with a result becomes %s, error %v", got, err)
	}
	for data, want := range map[string]error{
		strings.Replace(open, `"uri"`, `"uri":"x:hidden","uri"`, 1):    ErrAmbiguous,
		strings.Replace(open, `"params"`, `"params":{},"params"`, 1):   ErrAmbiguous,
		strings.Replace(open, `"params"`, `"Method":"x","params"`, 1):  ErrAmbiguous,
		`{"id":1,"result":{"tools":[],"Tools":[{"name":"hidden"}]}}`:   ErrAmbiguous,
		`{"id":1,"result":{"tools":[],"tools":[{"name":"hidden"}]}}`:   ErrAmbiguous,
		`{"id":1,"result":{},"Result":{"tools":[{"name":"hidden"}]}}`:  ErrAmbiguous,
		`{"id":1,"result":{},"result":{"tools":[{"name":"hidden"}]}}`:  ErrAmbiguous,
		`{"id":1,"result":{"tools":{"name":"hidden"}}}`:                ErrInvalid,
		`{"id":1,"result":{"tools":[{"name":"hidden"}]}}{"id":2}`:      ErrInvalid,
		`{"id":1,"result":{"tools":[{"name":"hidden"}]`:                ErrInvalid,
		`[{"id":1,"result":{"tools":[{"name":"hidden"}],"tools":[]}}]`: ErrAmbiguous,
		`[[{"id":1,"result":{"tools":[{"name":"hidden"}]}}]]`:          ErrInvalid,
	} {
		if got, err := hiding().Apply([]byte(data)); !errors.Is(err, want) {
			t.Errorf("%s: %s, error %v, want %v", data, got, err, want)
		}
	}
}

// FuzzFilter compares with a reader that takes names in any case: whatever is let
// through, it finds no hidden item in a list.
func FuzzFilter(f *testing.F) {
	f.Add([]byte(`{"id":1,"result":{"tools":[{"name":"hidden"},{"name":"a"}]}}`))
	f.Add([]byte(`[{"id":1,"result":{"prompts":[{"name":"hidden"}],"cacheScope":"public"}}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := hiding().Apply(data)
		if err != nil && !errors.Is(err, ErrNoMessage) {
			return
		}
		messages := []json.RawMessage{got}
		if bytes.HasPrefix(bytes.TrimSpace(got), []byte("[")) && json.Unmarshal(got, &messages) != nil {
			t.Fatalf("%q becomes %q, which is no JSON", data, got)
		}
		for _, raw := range messages {
			var read struct {
				Result struct {
					Tools, Prompts, Resources, ResourceTemplates []struct{ Name, URI, URITemplate string }
				}
			}
			_ = json.Unmarshal(raw, &read)
			r := read.Result
			for _, list := range [...][]struct{ Name, URI, URITemplate string }{r.Tools, r.Prompts, r.Resources, r.ResourceTemplates} {
				for _, item := range list {
					if strings.Contains(item.Name+item.URI+item.URITemplate, "hidden") {
						t.Errorf("%q becomes %q", data, got)
					}
				}
			}
		}
	})
}
