package message

import (
	"maps"
	"testing"
)

func TestMirrored(t *testing.T) {
	const tool = `{"name":"t","inputSchema":{"type":"object","properties":{
		"region":{"type":"string","x-mcp-header":"Region"},
		"n":{"type":"integer","x-mcp-header":"Count"},
		"on":{"type":"boolean","x-mcp-header":"On"},
		"deep":{"type":"object","properties":{"in":{"type":"string","x-mcp-header":"In"}}},
		"list":{"type":"array","x-mcp-header":"List"},
		"bad":{"type":"string","x-mcp-header":"a b"},
		"odd":{"type":"string","x-mcp-header":1},
		"plain":{"type":"string"}}}}`
	for arguments, want := range map[string]map[string]string{
		`{"region":"eu","n":12,"on":false}`:                                 {"Mcp-Param-Region": "eu", "Mcp-Param-Count": "12", "Mcp-Param-On": "false"},
		`{"region":"\u00e4","deep":{"in":" x"}}`:                            {"Mcp-Param-Region": "=?base64?w6Q=?=", "Mcp-Param-In": "=?base64?IHg=?="},
		`{"region":null,"list":["a"],"bad":"a","odd":"a","plain":"secret"}`: {},
		`{"region":"a","region":"b"}`:                                       {},
		`[]`:                                                                {}, ``: {}, `{}`: {},
	} {
		if got := Mirrored([]byte(tool), []byte(arguments)); !maps.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", arguments, got, want)
		}
	}
	for _, tool := range []string{`{}`, `{"x-mcp-header":"A"}`, `{"inputSchema":{"properties":[],"x-mcp-header":"A"}}`, `{"inputSchema":"x-mcp-header"}`} {
		if got := Mirrored([]byte(tool), []byte(`{"a":"b"}`)); len(got) != 0 {
			t.Errorf("%s: got %v", tool, got)
		}
	}
}
