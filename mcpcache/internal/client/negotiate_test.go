package client

import (
	"errors"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client/clienttest"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// What comes of opening a session.
const (
	isOpen        = "it is open"
	isUnsupported = "the revision is unsupported"
	isRefused     = "our credential is refused"
	hasFailed     = "it has failed for now"
)

// comeOf says what has come of opening a session, and which revision the server
// has offered instead.
func comeOf(err error) (what string, offered revision.Revision) {
	unsupported, ok := errors.AsType[*UnsupportedError](err)
	switch {
	case err == nil:
		return isOpen, 0
	case ok:
		return isUnsupported, unsupported.Offered
	case Refused(err):
		return isRefused, 0
	}
	return hasFailed, 0
}

// An answer that says nothing of revisions never makes one unsupported.
func TestOpen(t *testing.T) {
	const supports = "2025-06-18"
	for name, tt := range map[string]struct {
		revision revision.Revision
		method   string
		answer   script
		want     string
		offered  revision.Revision
	}{
		"modern":                    {modern, "", nil, isOpen, 0},
		"modern, legacy versions":   {modern, "server/discover", gives(`{"supportedVersions":["2025-03-26","2025-06-18"],"capabilities":{"tools":{}}}`), isUnsupported, revision.V20250618},
		"modern, unknown versions":  {modern, "server/discover", gives(`{"supportedVersions":["2024-11-05"],"capabilities":{}}`), isUnsupported, 0},
		"modern, method not found":  {modern, "server/discover", failure(200, -32601, ""), isUnsupported, 0},
		"modern, 404 not found":     {modern, "server/discover", failure(404, -32601, ""), isUnsupported, 0},
		"modern, 400 unsupported":   {modern, "server/discover", failure(400, -32022, supports), isUnsupported, revision.V20250618},
		"modern, 400 no session":    {modern, "server/discover", failure(400, -32000, ""), isUnsupported, 0},
		"modern, 405":               {modern, "server/discover", status(405), isUnsupported, 0},
		"modern, no versions":       {modern, "server/discover", gives(`{"capabilities":{}}`), hasFailed, 0},
		"modern, 401":               {modern, "server/discover", status(401), isRefused, 0},
		"modern, 403":               {modern, "server/discover", status(403), isRefused, 0},
		"modern, 408":               {modern, "server/discover", status(408), hasFailed, 0},
		"modern, 429":               {modern, "server/discover", status(429, "Retry-After", "60"), hasFailed, 0},
		"modern, 500":               {modern, "server/discover", status(500), hasFailed, 0},
		"modern, 503 with an error": {modern, "server/discover", failure(503, -32022, supports), hasFailed, 0},
		"modern, timeout":           {modern, "server/discover", clienttest.Hang, hasFailed, 0},
		"modern, refused":           {modern, "server/discover", refuse, hasFailed, 0},
		"modern, redirect":          {modern, "server/discover", status(307, "Location", "http://elsewhere.test/"), hasFailed, 0},
		"modern, HTML":              {modern, "server/discover", status(200), hasFailed, 0},
		"modern, wrong id":          {modern, "server/discover", answerTo(`"other"`), hasFailed, 0},
		"modern, no id":             {modern, "server/discover", answerTo(`null`), hasFailed, 0},
		"modern, half an answer":    {modern, "server/discover", raw(`{"jsonrpc":"2.0","id":1,"resu`), hasFailed, 0},
		"modern, no result":         {modern, "server/discover", raw(`{"jsonrpc":"2.0","id":1}`), hasFailed, 0},
		"modern, result no object":  {modern, "server/discover", gives(`[]`), hasFailed, 0},
		"legacy":                    {legacy, "", nil, isOpen, 0},
		"legacy, an older one":      {legacy, "initialize", nil, isUnsupported, revision.V20250618},
		"legacy, 2024-11-05":        {legacy, "initialize", gives(`{"protocolVersion":"2024-11-05","capabilities":{"tools":{}}}`), isUnsupported, 0},
		"legacy, a modern one":      {legacy, "initialize", gives(`{"protocolVersion":"2026-07-28","capabilities":{"tools":{}}}`), isUnsupported, modern},
		"legacy, -32602 supporting": {legacy, "initialize", failure(200, -32602, supports), isUnsupported, revision.V20250618},
		"legacy, 400 unsupported":   {legacy, "initialize", failure(400, -32022, "2026-07-28"), isUnsupported, 0},
		"legacy, 404":               {legacy, "initialize", status(404), isUnsupported, 0},
		"legacy, 401":               {legacy, "initialize", status(401), isRefused, 0},
		"legacy, 403":               {legacy, "initialize", failure(403, -32001, ""), isRefused, 0},
		"legacy, 429":               {legacy, "initialize", status(429, "Retry-After", "60"), hasFailed, 0},
		"legacy, 502":               {legacy, "initialize", status(502), hasFailed, 0},
		"legacy, timeout":           {legacy, "initialize", clienttest.Hang, hasFailed, 0},
		"legacy, refused":           {legacy, "initialize", refuse, hasFailed, 0},
		"legacy, no capabilities":   {legacy, "initialize", gives(`{"protocolVersion":"2025-11-25"}`), isOpen, 0},
		"legacy, initialized fails": {legacy, "notifications/initialized", status(500), hasFailed, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(tt.revision)
			if tt.answer == nil && tt.offered != 0 {
				s.Speaks = []string{tt.offered.String()}
			}
			s.On(tt.method, tt.answer)
			run(t, tt.revision, s, func(w *world) {
				begun := time.Now()
				session, err := w.try()
				if got, offered := comeOf(err); got != tt.want || offered != tt.offered {
					t.Errorf("%s, offering %s, error %v; want that %s, offering %s", got, offered, err, tt.want, tt.offered)
				}
				if took := time.Since(begun); took > InitializeTimeout {
					t.Errorf("it took %v", took)
				}
				session.Close(time.Second)
			})
		})
	}
}
