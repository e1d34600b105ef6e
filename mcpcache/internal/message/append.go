package message

import (
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// AppendPrefix appends the beginning of a JSON-RPC response, so that it and a
// [Body]'s Bytes are a whole message: the id as given, and as the first member
// of the result "ttlMs" in whole milliseconds, rounded down, unless ttl is
// negative. The caller says whether the body has members, that is, whether its
// Bytes are more than "}}". It allocates nothing if dst has room.
func AppendPrefix(dst, id []byte, ttl time.Duration, hasMembers bool) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = append(dst, id...)
	dst = append(dst, `,"result":{`...)
	if ttl < 0 {
		return dst
	}
	dst = append(dst, `"ttlMs":`...)
	dst = strconv.AppendInt(dst, ttl.Milliseconds(), 10)
	if hasMembers {
		dst = append(dst, ',')
	}
	return dst
}

// AppendError appends a JSON-RPC error response with the raw id. Without an id
// the response has none, as the transport allows when the request's is not
// known. Invalid UTF-8 in message is replaced.
func AppendError(dst, id []byte, code int, message string) []byte {
	return append(appendError(dst, id, code, message), "}}"...)
}

// AppendErrorAbout is AppendError about a resource: data.uri names it (2026-07-28,
// "Resources", "Error Handling").
func AppendErrorAbout(dst, id []byte, code int, message, uri string) []byte {
	dst = append(appendError(dst, id, code, message), `,"data":{"uri":`...)
	dst, _ = jsontext.AppendQuote(dst, uri)
	return append(dst, "}}}"...)
}

// AppendErrorWith is AppendError with data, a raw JSON value.
func AppendErrorWith(dst, id []byte, code int, message string, data []byte) []byte {
	dst = append(appendError(dst, id, code, message), `,"data":`...)
	return append(append(dst, data...), "}}"...)
}

func appendError(dst, id []byte, code int, message string) []byte {
	dst = append(dst, `{"jsonrpc":"2.0",`...)
	if id != nil {
		dst = append(dst, `"id":`...)
		dst = append(dst, id...)
		dst = append(dst, ',')
	}
	dst = append(dst, `"error":{"code":`...)
	dst = strconv.AppendInt(dst, int64(code), 10)
	dst = append(dst, `,"message":`...)
	// The error says that bytes were replaced, which is as good as can be.
	dst, _ = jsontext.AppendQuote(dst, message)
	return dst
}
