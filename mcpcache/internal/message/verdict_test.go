package message

import "testing"

func TestJudge(t *testing.T) {
	for beginning, want := range map[string]Verdict{
		`{"jsonrpc":"2.0","id":7,"result":{`:                 IsResult,
		`{"id":7, "jsonrpc" : "2.0", "result":{"tools":[{"n`: IsResult,
		`{"id":7,"result":{},"jsonrpc":"1.0"}`:               IsResult, // what follows is not read
		`{"error":null,"id":7,"result":{`:                    IsResult,
		`{"jsonrpc":"2.0","id":7,"error":{`:                  IsError,
		`{"jsonrpc":"1.0","id":7,"result":{`:                 Undecided,
		`{"jsonrpc":2.0,"id":7,"result":{`:                   Undecided,
		`{"jsonrpc":null,"id":7,"result":{`:                  IsResult, // that is absent
		`{"jsonrpc":"2.0","method":"a","result":{`:           Undecided,
		`[{"jsonrpc":"2.0","id":7,"result":{`:                Undecided,
		`{"jsonrpc":"2.0","id":7,"res`:                       Undecided,
		``:                                                   Undecided,
	} {
		if got := Judge([]byte(beginning)); got != want {
			t.Errorf("%s is %d, want %d", beginning, got, want)
		}
	}
}
