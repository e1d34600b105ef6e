package jsonrpc

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

func TestAppend(t *testing.T) {
	for _, tt := range []struct {
		problem  *Problem
		id, want string
	}{
		{Failed(http.StatusBadGateway, "down"), `1`, `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"down"}}`},
		{Failed(http.StatusBadGateway, "a \"b\"\n\x00<é>\xff"), ``, `{"jsonrpc":"2.0","error":{"code":-32603,"message":"a \"b\"\n\u0000<é>` + "\ufffd" + `"}}`},
		{Refused(http.StatusNotFound, "no session"), `"a"`, `{"jsonrpc":"2.0","id":"a","error":{"code":-32600,"message":"no session"}}`},
		{Unknown(revision.Legacy, revision.Resources, "x:\"\n\xff"), `"x"`, `{"jsonrpc":"2.0","id":"x","error":{"code":-32002,"message":"Resource not found","data":{"uri":"x:\"\n` + "\ufffd" + `"}}}`},
		{
			Unsupported(`"`, "2025-11-25", "2026-07-28"), `1`, `{"jsonrpc":"2.0","id":1,"error":{"code":-32022,` +
				`"message":"Unsupported protocol version: this endpoint speaks 2025-11-25, 2026-07-28","data":{"supported":["2025-11-25","2026-07-28"],"requested":"\""}}}`,
		},
	} {
		var id []byte
		if tt.id != "" {
			id = []byte(tt.id)
		}
		if got := tt.problem.Append([]byte("x"), id); string(got) != "x"+tt.want || !json.Valid(got[1:]) {
			t.Errorf("got %s, want %s", got, tt.want)
		}
	}
}

// TestProblemsInBothEras looks at the status and the code with which clients of each era are told of a problem.
func TestProblemsInBothEras(t *testing.T) {
	unknown := func(k revision.Kind) func(revision.Era) *Problem {
		return func(era revision.Era) *Problem { return Unknown(era, k, "x") }
	}
	same := func(p *Problem) func(revision.Era) *Problem { return func(revision.Era) *Problem { return p } }
	for name, tt := range map[string]struct {
		problem                    func(revision.Era) *Problem
		legacy, modern             int // of HTTP
		codeInLegacy, codeInModern int
	}{
		"unknown tool":     {unknown(revision.Tools), 200, 400, InvalidParams, InvalidParams},
		"unknown prompt":   {unknown(revision.Prompts), 200, 400, InvalidParams, InvalidParams},
		"unknown resource": {unknown(revision.Resources), 200, 400, ResourceNotFound, InvalidParams},
		"unknown method":   {same(NoMethod()), 200, 404, MethodNotFound, MethodNotFound},
		"bad cursor":       {same(Invalid(InvalidParams, "bad cursor")), 200, 400, InvalidParams, InvalidParams},
		"no JSON":          {same(Invalid(ParseError, "no JSON")), 400, 400, ParseError, ParseError},
		"a header differs": {same(Invalid(HeaderMismatch, "differs")), 400, 400, HeaderMismatch, HeaderMismatch},
		"unknown session":  {same(Refused(404, "unknown")), 404, 404, InvalidRequest, InvalidRequest},
		"down":             {same(Failed(502, "down")), 502, 502, InternalError, InternalError},
	} {
		for era, want := range map[revision.Era][2]int{
			revision.Legacy: {tt.legacy, tt.codeInLegacy},
			revision.Modern: {tt.modern, tt.codeInModern},
		} {
			if p := tt.problem(era).In(era); p.Status != want[0] || p.Code != want[1] {
				t.Errorf("%s for a %s client: %d with %d, want %d with %d", name, era, p.Status, p.Code, want[0], want[1])
			}
		}
	}
}

func TestStatusOf(t *testing.T) {
	for code, want := range map[int]int{0: 200, InternalError: 200, ResourceNotFound: 200, UnknownSession: 200, -32099: 200, MethodNotFound: 404, InvalidParams: 400, UnsupportedVersion: 400} {
		if got := StatusOf(code); got != want {
			t.Errorf("%d has status %d, want %d", code, got, want)
		}
	}
}
