package message

import (
	"strconv"
	"time"
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
