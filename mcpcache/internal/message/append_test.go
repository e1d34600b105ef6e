package message

import (
	"encoding/json"
	"testing"
	"time"
)

func TestAppendPrefix(t *testing.T) {
	for _, tt := range []struct {
		id      string
		ttl     time.Duration
		members bool
		want    string
	}{
		{`1`, -1, true, `{"jsonrpc":"2.0","id":1,"result":{`},
		{`"a\u0062"`, -time.Hour, false, `{"jsonrpc":"2.0","id":"a\u0062","result":{`},
		{`1e0`, 0, true, `{"jsonrpc":"2.0","id":1e0,"result":{"ttlMs":0,`},
		{`1`, 0, false, `{"jsonrpc":"2.0","id":1,"result":{"ttlMs":0`},
		{`1`, 2*time.Second - 1, true, `{"jsonrpc":"2.0","id":1,"result":{"ttlMs":1999,`},
		{`1`, 1<<63 - 1, true, `{"jsonrpc":"2.0","id":1,"result":{"ttlMs":9223372036854,`},
	} {
		if got := string(AppendPrefix([]byte("x"), []byte(tt.id), tt.ttl, tt.members)); got != "x"+tt.want {
			t.Errorf("got %s, want x%s", got, tt.want)
		}
	}
	dst := make([]byte, 0, 128)
	allocs := testing.AllocsPerRun(100, func() { AppendPrefix(dst, []byte("1234"), time.Minute, true) })
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

func TestAppendError(t *testing.T) {
	for _, tt := range []struct {
		id, message, want string
	}{
		{`1`, "down", `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"down"}}`},
		{``, "a \"b\"\n\x00<é>\xff", `{"jsonrpc":"2.0","error":{"code":-32603,"message":"a \"b\"\n\u0000<é>` + "\ufffd" + `"}}`},
	} {
		var id []byte
		if tt.id != "" {
			id = []byte(tt.id)
		}
		got := AppendError(nil, id, -32603, tt.message)
		if string(got) != tt.want || !json.Valid(got) {
			t.Errorf("got %s, want %s", got, tt.want)
		}
	}
}

func TestAppendErrorAbout(t *testing.T) {
	got := AppendErrorAbout(nil, []byte(`"x"`), -32002, "Resource not found", "x:\"\n\xff")
	want := `{"jsonrpc":"2.0","id":"x","error":{"code":-32002,"message":"Resource not found","data":{"uri":"x:\"\n` + "\ufffd" + `"}}}`
	if string(got) != want || !json.Valid(got) {
		t.Errorf("got %s, want %s", got, want)
	}
}
