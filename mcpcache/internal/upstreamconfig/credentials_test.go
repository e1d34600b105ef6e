package upstreamconfig

import (
	"net/http"
	"reflect"
	"testing"
)

func TestCredentials(t *testing.T) {
	t.Setenv("MCP_CACHE_TEST_TOKEN", "s3cret")
	for raw, want := range map[string]http.Header{
		`{"handler":"reverse_proxy","headers":{"request":{"set":{"authorization":["Bearer {env.MCP_CACHE_TEST_TOKEN}"],"X-Tenant":["acme"]},"add":{"X-Api-Key":["a","b"]}}}}`: {
			"Authorization": {"Bearer s3cret"}, "X-Api-Key": {"a", "b"},
		},
		`{"headers":{"request":{"set":{"Cookie":["a={http.request.header.X-A}"]},"delete":["Token"]},"response":{"set":{"Set-Cookie":["b"]}}}}`: {
			"Cookie": {"a={http.request.header.X-A}"},
		},
		`{"handler":"reverse_proxy"}`: {},
		`{"headers":1}`:               nil,
	} {
		if got := Read([]byte(raw)).Credentials(); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, want %v", raw, got, want)
		}
	}
}

func TestAnyShared(t *testing.T) {
	for value, want := range map[string]bool{"Bearer s3cret": true, "": false, "{http.auth.user.id}": false, "{other}": true} {
		if got := AnyShared(http.Header{"X-Key": {value}}); got != want {
			t.Errorf("%q: %v", value, got)
		}
	}
	if AnyShared(nil) {
		t.Error("no credential is shared")
	}
}
