package message

import "testing"

func TestMayShowItems(t *testing.T) {
	for data, want := range map[string]bool{
		`{"result":{"tools":[NaN]}}`: true, `{"result":{"Tools":[],"x":NaN}}`: true, `{"result":{"t\u006fols":[]}`: true,
		`{"result":{"T\u004fOLS":[]}`: true, `"resourceTemplates"`: true, `{"method":"notifications\/resources\/updated"`: true,
		`{"method":"notifications/resources/Updated"`: true, `{"result":{"tools\u0000x":[NaN]}}`: true, "{\"result\":{\"tools\x00\":[]}": true, `{"result":{"tool\u0000s":[]}`: false, `"prompts" "`: true, `"resources"`: true,
		`{"result":{"content":[{"text":"NaN tools, prompts and resources"}]`: false, `{"result":{"x":NaN}}`: false, `"\"tools\""`: false,
		`\`: false, `\u00`: false, `"\u1234tools"`: false, ``: false, `"tool"`: false,
	} {
		if got := MayShowItems([]byte(data)); got != want {
			t.Errorf("%s: got %v", data, got)
		}
	}
}
