package backend

import (
	"encoding/json"
	"testing"
)

// TestKeysStay pins the keys of two configurations: lists that an earlier release has stored are
// found by them.
func TestKeysStay(t *testing.T) {
	for want, key := range map[string]Key{
		"9b87bbc49619b2808448e2df3dfb5fb17563e39bd6d12b86cef6d23e47d0ed62": {Upstream: json.RawMessage(`{"handler":"reverse_proxy"}`)},
		"e006ecc69b82c6e106e52ab21a2728a05f13812f545156ea47687017bd566d17": {
			Upstream: json.RawMessage(`{"handler":"reverse_proxy"}`), Guard: json.RawMessage(`{"guard":"bearer"}`), Endpoint: "/x",
			Scope: "public", Partition: []string{"{http.vars.a}"}, Always: true, Harmless: []string{"X-A"}, Host: "a", Telling: []string{"b"},
			Eras: []string{"modern"}, SameHosts: []string{"c"}, Client: "d",
		},
	} {
		got, err := key.Of("guard", "program")
		if err != nil || got != want {
			t.Errorf("%+v: got %s, %v, want %s", key, got, err, want)
		}
	}
	if _, err := (Key{Upstream: func() {}}).Of(); err == nil {
		t.Error("a function is JSON")
	}
}
