package caddyfile

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
)

// TestAcceptedIsValid provisions what the golden files adapt to, so that no
// option is accepted here and refused by the handler.
func TestAcceptedIsValid(t *testing.T) {
	t.Setenv("MCP_TOKEN", "token")
	secretFile := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secretFile, []byte(strings.Repeat("0f", 32)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range goldenFiles(t) {
		for _, c := range readGolden(t, file) {
			if c.isMistake() {
				continue
			}
			config := &caddy.Config{
				StorageRaw: json.RawMessage(`{"module":"file_system","root":` + strconv.Quote(t.TempDir()) + `}`),
				Logging: &caddy.Logging{Logs: map[string]*caddy.CustomLog{
					"default": {BaseLog: caddy.BaseLog{WriterRaw: json.RawMessage(`{"output":"discard"}`)}},
				}},
			}
			adapted := strings.ReplaceAll(c.want, strconv.Quote("/run/secrets/mcp_cache"), strconv.Quote(secretFile))
			if err := caddy.StrictUnmarshalJSON([]byte(adapted), config); err != nil {
				t.Errorf("%s: %v", file, err)
				continue
			}
			if err := caddy.Validate(config); err != nil {
				t.Errorf("%s: %v of\n%s", file, err, c.input)
			}
		}
	}
}
