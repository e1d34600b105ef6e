package message

import (
	"errors"
	"reflect"
	"testing"
)

func TestParseServerInfo(t *testing.T) {
	for name, tt := range map[string]struct {
		result string
		want   ServerInfo
	}{
		"initialize": {
			`{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true},"prompts":{"listChanged":false},"r\u0065sources":{},"logging":null,"x":true},"serverInfo":{"name":"n"}}`,
			ServerInfo{
				ProtocolVersion: "2025-11-25",
				Capabilities:    map[string]bool{"tools": true, "prompts": true, "resources": true},
				ListChanged:     map[string]bool{"tools": true},
			},
		},
		"discover": {
			`{"resultType":"complete","supportedVersions":["2026-07-28","2025-11-25"],"capabilities":{"tools":{"listChanged":"true"}}}`,
			ServerInfo{
				SupportedVersions: []string{"2026-07-28", "2025-11-25"},
				Capabilities:      map[string]bool{"tools": true},
				ListChanged:       map[string]bool{},
			},
		},
		"capabilities of another kind": {
			`{"protocolVersion":"x","capabilities":[{"tools":{}}]}`,
			ServerInfo{ProtocolVersion: "x", Capabilities: map[string]bool{}, ListChanged: map[string]bool{}},
		},
		"no capabilities": {
			`{"protocolVersion":"x"}`,
			ServerInfo{ProtocolVersion: "x", Capabilities: map[string]bool{}, ListChanged: map[string]bool{}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseServerInfo([]byte(tt.result))
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestParseServerInfoRefuses(t *testing.T) {
	for result, want := range map[string]error{
		``:                                   ErrInvalid,
		`[]`:                                 ErrInvalid,
		`{}`:                                 ErrInvalid,
		`{"protocolVersion":1}`:              ErrInvalid,
		`{"supportedVersions":"2026-07-28"}`: ErrInvalid,
		`{"supportedVersions":[1]}`:          ErrInvalid,
		`{"protocolVersion":"a","protocolVersion":"b"}`:                                      ErrAmbiguous,
		`{"protocolVersion":"a","protocolversion":"b"}`:                                      ErrAmbiguous,
		`{"protocolVersion":"a","capabilities":{"tools":{},"tools":{}}}`:                     ErrAmbiguous,
		`{"protocolVersion":"a","capabilities":{"tools":{"listChanged":1,"listchanged":1}}}`: ErrAmbiguous,
	} {
		if got, err := ParseServerInfo([]byte(result)); !errors.Is(err, want) || got.Capabilities != nil {
			t.Errorf("%s: got %+v, error %v, want %v", result, got, err, want)
		}
	}
}
