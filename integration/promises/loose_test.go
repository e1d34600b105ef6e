package promises

import (
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// TestAnswersThatAreNotExact: what some servers write otherwise than JSON-RPC has it is read in the same way wherever
// it comes by. Lists are kept, and calls answered. What Caddys share over Redis was read by one of them.
func TestAnswersThatAreNotExact(t *testing.T) {
	for name, tt := range map[string]struct {
		script  scripted.Script
		methods []string
	}{
		"loose":                       {scripted.Loose, []string{"initialize", "server/discover", scripted.ToolsList, "tools/call"}},
		"the error of another before": {scripted.AnothersErrorFirst, []string{scripted.ToolsList, "tools/call"}},
	} {
		for _, in := range []column{ofOne, ofSeveral, ofPrograms} {
			for _, era := range eras {
				for _, at := range placesOf(in, era) {
					if era == across && !at.several {
						continue // see notAcross
					}
					t.Run(name+", "+at.String(), func(t *testing.T) {
						s := newSite(t, at)
						for _, method := range tt.methods {
							s.SetScript(method, tt.script)
						}
						s.begin()
						for _, c := range s.settled("") {
							a := s.call(c, "item-0001")
							if !strings.Contains(string(a.Body), "called item-0001") || at.several && era == across && !isCalled(a, "item-0001") {
								t.Errorf("a call gave %s: %s", a, a.Body)
							}
						}
					})
				}
			}
		}
	}
}
