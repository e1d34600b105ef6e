package message

import (
	"slices"
	"testing"
)

func TestDeviations(t *testing.T) {
	for response, want := range map[string][]string{
		`{"jsonrpc":"2.0","id":1,"result":{"tools":[],"x":null}}`:                {},
		`{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}}`:           {},
		`{"jsonrpc":"2.0","id":1.0,"result":{},"error":null,"jsonrpc":"2.0"}`:    {"the id is written as a fraction", "error is null", "jsonrpc comes twice"},
		`{"jsonrpc":"2.0","id":1,"method":null,"result":{"nextCursor":null}}`:    {"method is null", "nextCursor is null"},
		`{"jsonrpc":"2.0","id":1,"x":null,"result":{"ttlMs":null,"ttlMs":null}}`: {"ttlMs is null"},
		``: nil,
	} {
		if got := Deviations([]byte(response)); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", response, got, want)
		}
	}
}
