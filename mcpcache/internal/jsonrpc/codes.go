// Package jsonrpc has the errors of JSON-RPC and of MCP. It knows their codes, and writes an error
// for a client of each era.
package jsonrpc

import "net/http"

// Codes of errors. The first five are JSON-RPC's (JSON-RPC 2.0, section 5.1).
const (
	ParseError     = -32700
	InvalidRequest = -32600
	MethodNotFound = -32601
	InvalidParams  = -32602
	InternalError  = -32603

	// The modern era's (2026-07-28, schema, "Error Codes").
	HeaderMismatch     = -32020
	MissingCapability  = -32021
	UnsupportedVersion = -32022

	// ResourceNotFound is the legacy era's (2025-11-25, "Resources", "Error Handling"). The modern era has
	// InvalidParams for it.
	ResourceNotFound = -32002

	// NoSession and UnknownSession are what servers made with SDKs say of a request in a session that they do
	// not know. No revision of MCP defines them.
	NoSession      = -32000
	UnknownSession = -32001
)

// StatusOf returns the HTTP status of an answer with an error of that code in the modern era. It returns 200 for any
// other code, and for 0, which stands for no error. The specification leaves ParseError, InvalidRequest and most of
// InvalidParams open (2026-07-28, "Streamable HTTP"). The SDKs for Go and Python answer them with 400.
func StatusOf(code int) int {
	switch code {
	case ParseError, InvalidRequest, InvalidParams, HeaderMismatch, MissingCapability, UnsupportedVersion:
		return http.StatusBadRequest
	case MethodNotFound:
		return http.StatusNotFound
	}
	return http.StatusOK
}
