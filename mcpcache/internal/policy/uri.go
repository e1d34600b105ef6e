package policy

import (
	"encoding/hex"
	"net/netip"
	"strconv"
	"strings"
)

// foldURI returns a URI or URI template as it is compared: in the normal form of
// [normal], with scheme and host in lower case. It reports false for one that servers
// may take for another than it looks like: rules can say nothing certain of it.
func foldURI(uri string) (string, bool) {
	if strings.Contains(uri, `\`) || strings.Trim(uri, " ") != uri {
		return "", false // parsers read a slash, and leave the spaces out (URL Standard, "URL parsing")
	}
	lower := strings.ToLower(uri[:strings.IndexAny(uri+"?", "?#")])
	for _, hidden := range [...]string{"%2e", "%2f", "%5c", "%25", "%00"} {
		if strings.Contains(lower, hidden) {
			return "", false
		}
	}
	if uri = normal(uri); !plain(uri) {
		return "", false
	}
	if hasDotSegment(uri) {
		return "", false
	}
	uri = withPath(foldAuthority(uri))
	return uri, isUsual(uri)
}

// hasDotSegment reports whether some server may find a segment of dots in a URI, which
// leads elsewhere. Many take a URI apart by its slashes alone, so that a query or a fragment
// leads elsewhere, too; some decode it more than once, or leave the parameters of a segment
// out (RFC 3986, section 3.3).
func hasDotSegment(uri string) bool {
	if !strings.ContainsAny(uri, ".%") {
		return false
	}
	for segment := range strings.FieldsFuncSeq(decodeAll(uri), func(r rune) bool { return strings.ContainsRune(`/\?#`, r) }) {
		segment, _, _ = strings.Cut(segment, ";")
		if segment == "." || segment == ".." {
			return true
		}
	}
	return false
}

// bare returns what of a folded URI is looked at by servers that take no more of it than
// scheme, host and path: without query, fragment and user, without slashes that follow
// slashes, and of a file without a host.
func bare(uri string) string {
	uri = uri[:strings.IndexAny(uri+"?", "?#")]
	scheme, rest, ok := strings.Cut(uri, ":")
	if !ok {
		return uri
	}
	out := []byte(scheme + ":")
	if authority, is := strings.CutPrefix(rest, "//"); is {
		end := strings.IndexByte(authority+"/", '/')
		host := authority[strings.LastIndexByte(authority[:end], '@')+1 : end]
		if scheme == "file" {
			host = ""
		}
		out, rest = append(append(out, "//"...), host...), authority[end:]
	}
	for i := range len(rest) {
		if rest[i] != '/' || i == 0 || rest[i-1] != '/' {
			out = append(out, rest[i])
		}
	}
	return string(out)
}

// withPath returns a folded URI of the web with the path that parsers give it if it has
// none (URL Standard, "path state").
func withPath(uri string) string {
	scheme, rest, _ := strings.Cut(uri, "://")
	if port, special := defaultPorts[scheme]; !special || port == "" {
		return uri
	}
	end := strings.IndexAny(rest+"/", "/?#")
	if end < len(rest) && rest[end] == '/' {
		return uri
	}
	return scheme + "://" + rest[:end] + "/" + rest[end:]
}

// normal returns a URI, a template or a glob over them without the percent-encoding of
// what need not be encoded (RFC 3986, section 6.2.2), and of what a URI cannot have, such
// as spaces and other letters than ASCII's: parsers encode that by themselves.
func normal(text string) string {
	first := strings.IndexByte(text, '%')
	if first < 0 {
		return text
	}
	b := []byte(text[:first])
	for i := first; i < len(text); i++ {
		encoded, err := strconv.ParseUint(text[i:min(i+3, len(text))][1:], 16, 8)
		switch {
		case text[i] != '%' || i+3 > len(text) || err != nil:
			b = append(b, text[i])
			continue
		case strings.IndexByte(":/?#[]@!$&'()*+,;=%\\", byte(encoded)) >= 0:
			b = append(b, strings.ToUpper(text[i:i+3])...)
		default:
			b = append(b, byte(encoded))
		}
		i += 2
	}
	return string(b)
}

// defaultPorts are those of the schemes whose URIs parsers take in other spellings, too
// (URL Standard, "special scheme").
var defaultPorts = map[string]string{"http": ":80", "https": ":443", "ws": ":80", "wss": ":443", "ftp": ":21", "file": ""}

// isUsual reports whether a folded URI is spelled as it usually is: parsers take the
// schemes of the web with one slash, or three, and with their default port, too; files
// also without a host's slashes, and as those of localhost.
func isUsual(uri string) bool {
	scheme, rest, _ := strings.Cut(uri, ":")
	port, special := defaultPorts[scheme]
	rest, ok := strings.CutPrefix(rest, "//")
	if !ok {
		return !special
	}
	authority := rest[:strings.IndexAny(rest+"/", "/?#")]
	if !isPlainAuthority(authority) {
		return false
	}
	switch {
	case scheme == "file":
		return authority != "localhost" && isASCII(authority)
	case special:
		return authority != "" && isASCII(authority) && !strings.HasSuffix(authority, port) && !strings.HasSuffix(authority, ".") && !isOddAddress(authority)
	}
	return true
}

// isPlainAuthority reports whether a user, host and port are spelled as no parser would
// change them: without what is empty or encoded (URL Standard, "URL parsing"). What
// parsers refuse they do not take for something else.
func isPlainAuthority(authority string) bool {
	user, host, has := strings.Cut(authority, "@")
	if !has {
		user, host = "-", authority
	}
	if user == "" || strings.HasSuffix(user, ":") || strings.Contains(authority, "%") {
		return false
	}
	_, port, has := strings.Cut(host[strings.LastIndexByte(host, ']')+1:], ":")
	return !has || port != "" && (port[0] != '0' || strings.Trim(port, "0123456789") != "")
}

func isASCII(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r >= 0x7f })
}

// isOddAddress reports whether a host is a number, or ends with one, and is not an IPv4
// address as it is usually written, or is an IPv6 address that is not (URL Standard,
// "ends in a number checker").
func isOddAddress(authority string) bool {
	host := authority[strings.LastIndexByte(authority, '@')+1:]
	if address, ok := strings.CutPrefix(host, "["); ok {
		address, _, _ = strings.Cut(address, "]")
		parsed, err := netip.ParseAddr(address)
		return err != nil || parsed.String() != address
	}
	host, _, _ = strings.Cut(host, ":")
	last := host[strings.LastIndexByte(host, '.')+1:]
	if last == "" || last[0] < '0' || last[0] > '9' {
		return false
	}
	parsed, err := netip.ParseAddr(host)
	return err != nil || parsed.String() != host
}

// hasCertainAuthority reports whether a glob over URIs says in plain characters what is
// scheme and host.
func hasCertainAuthority(glob string) bool {
	end := strings.IndexAny(glob, wild)
	if end < 0 {
		return true
	}
	_, rest, ok := strings.Cut(glob[:end], ":")
	if !ok || rest == "" || rest == "/" {
		return false
	}
	host, ok := strings.CutPrefix(rest, "//")
	return !ok || strings.ContainsAny(host, "/#")
}

// foldAuthority returns a URI, a template or a glob over them with its scheme and
// host in lower case (RFC 3986, section 6.2.2.1).
func foldAuthority(uri string) string {
	scheme, rest, ok := strings.Cut(uri, "://")
	if !ok {
		if scheme, rest, ok = strings.Cut(uri, ":"); ok && isScheme(scheme) {
			return strings.ToLower(scheme) + ":" + rest
		}
		return uri
	}
	if strings.ContainsAny(scheme, "/?#") {
		return uri
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	return strings.ToLower(scheme) + "://" + strings.ToLower(rest[:end]) + rest[end:]
}

// isScheme reports whether a text is the scheme of a URI (RFC 3986, section 3.1).
func isScheme(text string) bool {
	for i := range len(text) {
		c := text[i] | 0x20
		if 'a' <= c && c <= 'z' {
			continue
		}
		if i == 0 || !strings.ContainsRune("0123456789+-.", rune(text[i])) {
			return false
		}
	}
	return text != ""
}

// decode returns a URI without percent-encoding.
func decode(uri string) string { return decoded(uri, false) }

// decodeAll returns a URI as it is after it was decoded as often as there is anything to
// decode.
func decodeAll(uri string) string {
	if !strings.Contains(uri, "%") {
		return uri
	}
	out := make([]byte, 0, len(uri))
	for i := range len(uri) {
		out = append(out, uri[i])
		// What was decoded may be the end of more.
		for n := len(out); n >= 3 && out[n-3] == '%'; n = len(out) {
			var c [1]byte
			if _, err := hex.Decode(c[:], out[n-2:]); err != nil {
				break
			}
			out = append(out[:n-3], c[0])
		}
	}
	return string(out)
}

// decodeGlob returns a glob over URIs that matches without percent-encoding what it
// matches with it.
func decodeGlob(text string) string {
	if d := decoded(text, true); checkGlob(d) == nil {
		return d
	}
	return text
}

// decoded returns a text without percent-encoding (RFC 3986, section 2.1). What is
// none stays. escape has what was encoded stand for itself in a glob.
func decoded(text string, escape bool) string {
	if !strings.Contains(text, "%") {
		return text
	}
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		var c [1]byte
		if text[i] != '%' || i+2 >= len(text) {
			out = append(out, text[i])
			continue
		}
		if _, err := hex.Decode(c[:], []byte(text[i+1:i+3])); err != nil {
			out = append(out, text[i])
			continue
		}
		if escape && strings.IndexByte(`*?[]\-^`, c[0]) >= 0 {
			out = append(out, '\\')
		}
		out = append(out, c[0])
		i += 2
	}
	return string(out)
}
