package message

import (
	"bytes"
	"encoding/hex"
)

// suspects are what a message has that may show an item, in lower case.
var suspects = [...][]byte{
	[]byte(`"tools"`), []byte(`"prompts"`), []byte(`"resources"`), []byte(`"resourcetemplates"`), []byte("resources/updated"),
}

// MayShowItems reports whether a message that cannot be read may still have a list in
// it, or a notice that names a resource, for parsers that take more for JSON than there
// is to it.
func MayShowItems(data []byte) bool {
	// A NUL ends a name for a parser that is written in C.
	text := bytes.ReplaceAll(bytes.ToLower(unescaped(data)), nul, []byte(`"`))
	for _, suspect := range suspects {
		if bytes.Contains(text, suspect) {
			return true
		}
	}
	return false
}

// unescaped returns a text in which ASCII characters and slashes stand for themselves.
func unescaped(data []byte) []byte {
	if bytes.IndexByte(data, '\\') < 0 {
		return data
	}
	out := make([]byte, 0, len(data))
	for i := 0; i < len(data); i++ {
		if data[i] != '\\' || i+1 == len(data) {
			out = append(out, data[i])
			continue
		}
		var c [2]byte
		if data[i+1] == 'u' && i+6 <= len(data) {
			if _, err := hex.Decode(c[:], data[i+2:i+6]); err == nil && c[0] == 0 && c[1] < 0x80 {
				out = append(out, c[1])
				i += 5
				continue
			}
		}
		if data[i+1] != '/' {
			out = append(out, data[i])
		}
		out = append(out, data[i+1])
		i++
	}
	return out
}
