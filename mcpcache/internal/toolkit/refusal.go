package toolkit

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// Error codes of JSON-RPC and of MCP.
const (
	parseError         = -32700
	invalidRequest     = -32600
	methodNotFound     = -32601
	invalidParams      = -32602
	internalError      = -32603
	headerMismatch     = -32020
	missingCapability  = -32021
	unsupportedVersion = -32022
	// notFoundLegacy is that of a resource in the legacy era (2025-11-25, "Resources", "Error
	// Handling").
	notFoundLegacy = -32002
)

// refusal is why a request is not answered as it would like, in the protocol's words.
type refusal struct {
	status int // of HTTP
	code   int
	text   string
	data   []byte // raw JSON; nil for none
}

// invalid is the refusal of a request that is not valid.
func invalid(code int, text string) refusal { return refusal{http.StatusBadRequest, code, text, nil} }

// unknown is the refusal of what does not exist (2026-07-28, "Tools", "Error Handling", and
// the same of prompts and resources).
func (v *visit) unknown(k revision.Kind, name string) refusal {
	if k == revision.Tools {
		return invalid(invalidParams, "Unknown tool: "+name)
	}
	if k == revision.Prompts {
		return invalid(invalidParams, "Unknown prompt: "+name)
	}
	uri, _ := json.Marshal(map[string]string{"uri": name}) // a string always marshals
	code := invalidParams
	if v.client != nil {
		code = notFoundLegacy
	}
	return refusal{http.StatusBadRequest, code, "Resource not found", uri}
}

// unsupported is the refusal of a revision.
func unsupported(requested string) refusal {
	data, _ := json.Marshal(map[string]any{"supported": supported, "requested": requested}) // strings always marshal
	return refusal{http.StatusBadRequest, unsupportedVersion, "Unsupported protocol version: this endpoint speaks " + strings.Join(supported, ", "), data}
}

// supported are the revisions that clients can speak here.
var supported = func() (names []string) {
	for _, r := range revision.All() {
		names = append(names, r.String())
	}
	return names
}()

// inLegacy returns a refusal as a legacy client is told of it: what is wrong with the call
// of a method is an answer like others, and 404 would end the session (2025-11-25,
// "Streamable HTTP", "Session Management").
func (f refusal) inLegacy() refusal {
	switch f.code {
	case invalidParams, methodNotFound, notFoundLegacy:
		f.status = http.StatusOK
	}
	return f
}

// fail answers with an error.
func (v *visit) fail(f refusal) error {
	if v.client != nil {
		f = f.inLegacy()
	}
	body := message.AppendErrorWith(nil, v.request.ID, f.code, f.text, f.data)
	if f.data == nil {
		body = message.AppendError(nil, v.request.ID, f.code, f.text)
	}
	h := v.w.Header()
	h["Content-Type"] = []string{"application/json"}
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	h["Cache-Status"] = []string{v.endpoint.quoted + cmp.Or(v.status, statusRefused)}
	v.AllowPage(h)
	v.w.WriteHeader(f.status)
	_, err := v.w.Write(body)
	return err
}
