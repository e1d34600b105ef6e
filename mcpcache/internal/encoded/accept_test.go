package encoded

import (
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/encoded/splice"
)

// What an Accept-Encoding header asks for (RFC 9110 section 12.5.3): the coding
// that is chosen, and the one for where that is not there.
func TestChosenCodings(t *testing.T) {
	for accepted, want := range map[string][2]splice.Encoding{
		"":                                 {"", ""},
		"identity":                         {"", ""},
		"br":                               {"", ""},
		"gzip":                             {"gzip", ""},
		"GZIP":                             {"gzip", ""},
		"x-gzip":                           {"gzip", ""},
		"zstd":                             {"zstd", ""},
		"gzip, zstd":                       {"zstd", "gzip"},
		"zstd,gzip":                        {"zstd", "gzip"},
		"gzip, deflate, br, zstd":          {"zstd", "gzip"},
		"gzip|zstd;q=0.9":                  {"gzip", "zstd"},
		"gzip;q=0.5, zstd;q=0.4":           {"gzip", "zstd"},
		"gzip; q=0.5 ,\tzstd ;\tQ=0.501":   {"zstd", "gzip"},
		"*":                                {"gzip", "zstd"},
		"*;q=0.1":                          {"gzip", "zstd"},
		"*;q=0":                            {"", ""},
		"gzip, *;q=0":                      {"gzip", ""},
		"zstd;q=0, *":                      {"gzip", ""},
		"gzip;q=0, *":                      {"zstd", ""},
		"zstd, *":                          {"zstd", "gzip"},
		"zstd;q=0.2, *;q=0.1":              {"zstd", "gzip"},
		"identity, *;q=0.5":                {"", ""},
		"identity;q=0.5, *":                {"gzip", "zstd"},
		"identity;q=0.5, gzip;q=0.4":       {"", ""},
		"identity;q=0.5, gzip;q=0.5":       {"gzip", ""},
		"identity;q=0.5, gzip, zstd;q=0.4": {"gzip", ""},
		"identity;q=0":                     {"", ""},
		"identity;q=0, gzip":               {"gzip", ""},
		"identity;q=0, gzip;q=0.001":       {"gzip", ""},
		"identity;q=0, *":                  {"gzip", "zstd"},
		"identity;q=0, *;q=0":              {"", ""},
		"gzip;q=0":                         {"", ""},
		"gzip;q=0.000":                     {"", ""},
		"gzip;q=1.000":                     {"gzip", ""},
		"gzip;q=1.001":                     {"", ""},
		"gzip;q=2":                         {"", ""},
		"gzip;q=NaN":                       {"", ""},
		"gzip;q=1e-1":                      {"", ""},
		"gzip;q=-0":                        {"", ""},
		"gzip;q=":                          {"", ""},
		"gzip;q=0.1234":                    {"", ""},
		"gzip;q=0.5;x=1":                   {"gzip", ""},
		"gzip;x=1;q=0":                     {"", ""},
		",, gzip ,":                        {"gzip", ""},
		"*;q=0.5, gzip;q=0.4":              {"zstd", ""},
	} {
		best, second := readCodings(strings.Split(accepted, "|")).choose()
		if got := [2]splice.Encoding{best, second}; got != want {
			t.Errorf("%q: got %q, want %q", accepted, got, want)
		}
	}
}
