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

func TestResponseID(t *testing.T) {
	for beginning, want := range map[string]string{
		`{"jsonrpc":"2.0","id":7,"result":{"content":[{"text":"xx`:  "7",
		`{"id":"a","jsonrpc":"2.0","error":{"code":1,"message":"xx`: `"a"`,
		`{"jsonrpc":"2.0","result":{"content":[{"text":"xx`:         "",
		`{"jsonrpc":"2.0","id":7,"method":"x","params":{"text":"xx`: "",
		`{"method":"x","id":7,"params":{"text":"xx`:                 "",
		`{"id":{"a":1},"result":{"text":"xx`:                        "",
		`{"id":7,"resul`:                                            "",
		`[{"id":7,"result":{"text":"xx`:                             "",
		`{"id":7.0,"method":null,"error":null,"result":{"text":"xx`: "7.0",
		`xx`: "",
		``:   "",
	} {
		if got := string(ResponseID([]byte(beginning))); got != want {
			t.Errorf("%s: got %s, want %s", beginning, got, want)
		}
	}
}
