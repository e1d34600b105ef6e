package message

import (
	"bytes"
	"strings"
	"testing"
)

func TestMethod(t *testing.T) {
	for body, want := range map[string]string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}`: "tools/call",
		`{"method":"tools/call"`:                           "tools/call", // what follows is not read
		`{"method":"tools/call","method":"tools/list"}`:    "tools/call",
		`{"method":"tools/call"}{`:                         "tools/call",
		`{"id":{"method":"a"}, "method" : "tools\/call" }`: "tools/call",
		`{"method":""}`:                                    "",
		`{"params":{},"method":"tools/call"}`:              "",
		`{"METHOD":"tools/call"}`:                          "",
		`{"\u006dethod":"tools/call"}`:                     "",
		`{"method":5}`:                                     "",
		`{"method":tools}`:                                 "",
		`{"id":,"method":"tools/call"}`:                    "",
		`{"id":1,"result":{"method":"tools/call"}}`:        "",
		`[{"method":"tools/call"}]`:                        "",
		`"method"`:                                         "",
		`{"id":1"method":"tools/call"}`:                    "",
		`{"id":01,"method":"tools/call"}`:                  "",
		`{"id":1,"method":"tools/c` + "\x01" + `all"}`:     "",
		`{"id":1,"method":"tools/call`:                     "",
		`{"id":12,"method":"a_b"}`:                         "a_b",
		`{}`:                                               "",
		`{`:                                                "",
		``:                                                 "",
	} {
		if got, scanned := Method([]byte(body)), scanMethod([]byte(body)); string(got) != want || string(scanned) != want {
			t.Errorf("%s gave %q, scanned %q, want %q", body, got, scanned, want)
		}
	}
	if got := Method([]byte(`{"method":""}`)); got == nil {
		t.Error("an empty method is none")
	}
}

// FuzzMethod checks that a message which is accepted has the method that it
// names first, and that what is usual is read as everything else is.
func FuzzMethod(f *testing.F) {
	for _, seed := range []string{legacyList, modernList, `{"params":{},"jsonrpc":"2.0","method":"x"}`, `{"method":"a\/b","jsonrpc":"2.0"}`,
		`{"jsonrpc":"2.0","id":7,"method":"tools/call"`, `{"jsonrpc":"2.0","id":7,"result":{`, `{"result":{},"id":01}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		got := Method(body)
		if scanned := scanMethod(body); !bytes.Equal(got, scanned) {
			t.Fatalf("%s names %q, scanned %q", body, got, scanned)
		}
		if verdict, scanned := Judge(body), scanVerdict(body); verdict != scanned {
			t.Fatalf("%s is %v, scanned %v", body, verdict, scanned)
		}
		var req Request
		if Decode(body, &req) == nil && got != nil && string(got) != string(req.Method) {
			t.Fatalf("%s names %q, and has %q", body, got, req.Method)
		}
	})
}

// BenchmarkMethod reads the method of a call, next to decoding it.
func BenchmarkMethod(b *testing.B) {
	body := []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"a":"` + strings.Repeat("text ", 2_000) + `"}}}`)
	b.Run("method", func(b *testing.B) {
		for b.Loop() {
			Method(body)
		}
	})
	b.Run("decoded", func(b *testing.B) {
		var req Request
		for b.Loop() {
			if err := Decode(body, &req); err != nil {
				b.Fatal(err)
			}
		}
	})
}
