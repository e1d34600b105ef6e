package message

import "testing"

func TestSameID(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{`1`, `1`, true}, {`"a\u0062"`, `"ab"`, true}, {`1`, `2`, false}, {`1`, `"1"`, false}, {`"a"`, `"b"`, false}, {``, `1`, false}, {``, ``, true},
		{`1.0`, `1`, true}, {`1e1`, `10.0`, true}, {`1.5`, `1`, false}, {`1.0`, `"1"`, false},
	} {
		if got := SameID([]byte(tt.a), []byte(tt.b)); got != tt.want {
			t.Errorf("%s and %s: got %v", tt.a, tt.b, got)
		}
	}
}

func TestNumber(t *testing.T) {
	for id, want := range map[string]uint64{"3": 3, "3.0": 3, "3e0": 3, "30e-1": 3, "18446744073709551615": 1<<64 - 1, "0": 0} {
		if got, ok := Number([]byte(id)); !ok || got != want {
			t.Errorf("%s: got %d, %v", id, got, ok)
		}
	}
	for _, id := range []string{"", "null", `"3"`, "-3", "3.5", "1e300", "{}"} {
		if got, ok := Number([]byte(id)); ok {
			t.Errorf("%s: got %d", id, got)
		}
	}
}
