package message

import "testing"

func TestDecodeHeader(t *testing.T) {
	for value, want := range map[string]string{
		"": "", "a": "a", "a b": "a b", "=?base64?aGlkZGVu?=": "hidden", "=?base64??=": "", "x=?base64?aGlkZGVu?=": "x=?base64?aGlkZGVu?=",
	} {
		if got, ok := DecodeHeader(value); !ok || got != want {
			t.Errorf("%q says %q, %v", value, got, ok)
		}
	}
	for _, value := range []string{"=?base64?aGlkZGVu", "=?base64?aGlkZGV?=", "=?BASE64?aGlkZGVu?=", "=?utf-8?q?a?=", "=?"} {
		if got, ok := DecodeHeader(value); ok {
			t.Errorf("%q says %q", value, got)
		}
	}
}

func TestEncodeHeader(t *testing.T) {
	for text, want := range map[string]string{
		"a b_c": "a b_c", "": "", "=?x": "=?base64?PT94?=", " a": "=?base64?IGE=?=", "é": "=?base64?w6k=?=", "a\tb": "=?base64?YQli?=",
	} {
		got := EncodeHeader(text)
		if again, ok := DecodeHeader(got); got != want || !ok || again != text {
			t.Errorf("%q: got %q, which says %q", text, got, again)
		}
	}
}
