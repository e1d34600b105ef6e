package header

import (
	"net/http"
	"testing"
)

func TestIsSigned(t *testing.T) {
	for name, tt := range map[string]struct {
		header http.Header
		want   bool
	}{
		"AWS":           {http.Header{"Authorization": {"AWS4-HMAC-SHA256 Credential=a/20261126/eu-west-1/service/aws4_request, SignedHeaders=host, Signature=00"}}, true},
		"AWS, 4A":       {http.Header{"Authorization": {"AWS4-ECDSA-P256-SHA256 Credential=a"}}, true},
		"RFC 9421":      {http.Header{"Signature-Input": {`sig1=("@authority");keyid="k"`}, "Signature": {"sig1=:AA==:"}}, true},
		"a token":       {http.Header{"Authorization": {"Bearer AWS4-HMAC-SHA256"}}, false},
		"nothing":       {http.Header{}, false},
		"another field": {http.Header{"Signature": {"x"}}, false},
	} {
		if got := IsSigned(tt.header); got != tt.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}
