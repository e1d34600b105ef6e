package message

import (
	"encoding/base64"
	"strings"
)

const (
	// What a header value that is written in base64 begins and ends with (2026-07-28,
	// "Streamable HTTP", "Value Encoding").
	sentinel, sentinelEnd = "=?base64?", "?="
	// encodedWord begins the sentinel, and what some programs decode by RFC 2047.
	encodedWord = "=?"
)

// DecodeHeader returns the text that a value of Mcp-Name says. It reports false if
// that is not certain: what begins like an encoded one has to be one.
func DecodeHeader(value string) (text string, ok bool) {
	encoded, is := strings.CutPrefix(value, sentinel)
	if !is {
		return value, !strings.HasPrefix(value, encodedWord)
	}
	if encoded, is = strings.CutSuffix(encoded, sentinelEnd); !is {
		return "", false
	}
	raw, err := base64.StdEncoding.DecodeString(encoded)
	return string(raw), err == nil
}

// EncodeHeader returns the value of Mcp-Name that says a text: in base64 if a header cannot
// have it as it is.
func EncodeHeader(text string) string {
	plain := !strings.HasPrefix(text, encodedWord) && strings.TrimSpace(text) == text
	for i := range len(text) {
		plain = plain && ' ' <= text[i] && text[i] <= '~'
	}
	if plain {
		return text
	}
	return sentinel + base64.StdEncoding.EncodeToString([]byte(text)) + sentinelEnd
}
