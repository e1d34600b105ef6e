package views

import (
	"compress/flate"
	"compress/gzip"
	"encoding/base64"
	"io"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/caddy-mcp/mcp-cache/integration/fixture"
)

// everySense returns whatever a server may take a request for, in lower case: its
// address, its headers and its body as they are, and in whatever coding and character
// set they may be meant. A cursor that the server has made is left out: SDKs write the
// name into it that the page before has ended with.
func everySense(r *fixture.Request) string {
	var all strings.Builder
	texts := []string{r.URL, cursorOf.ReplaceAllString(string(r.Body), "")}
	for name, values := range r.Header {
		texts = append(texts, name+": "+strings.Join(values, "\n"))
	}
	for _, text := range texts {
		for _, read := range readings(text) {
			all.WriteString(strings.ToLower(read) + "\n")
		}
	}
	return all.String()
}

var (
	escape   = regexp.MustCompile(`\\u([0-9a-fA-F]{4})`)
	cursorOf = regexp.MustCompile(`"cursor":"[^"]*"`)
	encoded  = regexp.MustCompile(`[A-Za-z0-9+/_-]{8,}`)
)

// readings returns a text as it may be read.
func readings(text string) []string {
	all := []string{text, strings.ReplaceAll(text, "\x00", ""), wide(text, 0), wide(text, 1)}
	if plain, err := io.ReadAll(flate.NewReader(strings.NewReader(text))); len(plain) > 0 {
		_ = err // what was read until then counts
		all = append(all, string(plain))
	}
	if unzip, err := gzip.NewReader(strings.NewReader(text)); err == nil {
		plain, _ := io.ReadAll(unzip) // what was read until then counts
		all = append(all, string(plain))
	}
	for _, one := range slices.Clip(all) {
		all = append(all, escape.ReplaceAllStringFunc(one, func(e string) string {
			n, err := strconv.ParseUint(e[2:], 16, 16)
			if err != nil {
				return e
			}
			return string(rune(n))
		}))
		if plain, err := url.PathUnescape(one); err == nil {
			all = append(all, plain)
		}
		for _, code := range encoded.FindAllString(one, 50) {
			for _, base := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
				if plain, err := base.DecodeString(code[:len(code)/4*4]); err == nil {
					all = append(all, string(plain))
				}
			}
		}
	}
	return all
}

// wide reads a text as UTF-16, with the more significant byte of each two at that
// place.
func wide(text string, high int) string {
	var units []uint16
	for pair := range slices.Chunk([]byte(text), 2) {
		if len(pair) == 2 {
			units = append(units, uint16(pair[high])<<8|uint16(pair[1-high]))
		}
	}
	return string(utf16.Decode(units))
}
