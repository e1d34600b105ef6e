package message

import (
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
