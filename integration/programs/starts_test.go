package programs

import (
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/programtest"
)

// TestProgramsThatEndAtOnce has programs end as soon as a session begins, with no client there: the feeds
// have them started in growing pauses, and the log says once why.
func TestProgramsThatEndAtOnce(t *testing.T) {
	for name, site := range map[string]func(program string) string{
		"one server": func(program string) string { return "mcp_cache {\n" + program + "\n}" },
		"several":    func(program string) string { return "mcp_cache {\nserver one {\n" + program + "\n}\n}" },
		"one process for all": func(program string) string {
			return "mcp_cache {\n" + strings.Replace(program, "idle", "share\nidle", 1) + "\n}"
		},
	} {
		t.Run(name, func(t *testing.T) {
			command, dir := caddytest.MisbehavingProgram(t, "leaves")
			p := caddytest.StartProxy(t, site(caddytest.ProgramUpstream(command, "idle 1m")))
			named := "mcp_cache"
			if name == "several" {
				named += "/one"
			}
			const failures = 3
			var failed, started int
			fixture.Await(t, "starts have failed", func() bool {
				failed = showProgram(t, named).Program.Failed
				started = len(programtest.Started(t, dir))
				return failed >= failures
			})
			// One is asked whether it has no sessions, and one may have started since.
			if started > failed+2 {
				t.Errorf("%d processes were started until %d starts had failed", started, failed)
			}
			if logged := strings.Count(p.Log(), `"msg":"program did not start"`); logged != 1 {
				t.Errorf("that the program does not start is logged %d times", logged)
			}
		})
	}
}
