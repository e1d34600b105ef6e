package oauth

import (
	"strings"
)

// authChallenge is one challenge of a WWW-Authenticate header.
type authChallenge struct {
	scheme string
	params map[string]string // names in lower case
}

// findBearer returns the first Bearer challenge among the values of
// WWW-Authenticate headers, preferring one that names resource metadata.
func findBearer(values []string) (authChallenge, bool) {
	var found authChallenge
	for _, value := range values {
		for _, c := range parseChallenges(value) {
			if !strings.EqualFold(c.scheme, "Bearer") {
				continue
			}
			if c.params["resource_metadata"] != "" {
				return c, true
			}
			if found.scheme == "" {
				found = c
			}
		}
	}
	return found, found.scheme != ""
}

// parseChallenges reads one WWW-Authenticate value, which may hold several
// challenges (RFC 9110 section 11.6.1). It is lenient: what it cannot read it
// skips. Of a repeated parameter the first counts.
func parseChallenges(value string) []authChallenge {
	var found []authChallenge
	p := challengeParser{rest: value}
	for {
		p.skip(" \t,")
		if p.rest == "" {
			return found
		}
		word := p.token()
		if word == "" {
			p.rest = p.rest[1:] // not a token: skip what is here
			continue
		}
		spaced := p.skip(" \t")
		if strings.HasPrefix(p.rest, "=") && len(found) > 0 && !isPadding(p.rest) {
			p.rest = p.rest[1:]
			p.skip(" \t")
			content := p.value()
			params := found[len(found)-1].params
			if name := strings.ToLower(word); params[name] == "" {
				params[name] = content
			}
			continue
		}
		found = append(found, authChallenge{scheme: word, params: make(map[string]string)})
		if spaced {
			p.token68()
		}
	}
}

// challengeParser walks over a header value.
type challengeParser struct {
	rest string
}

// skip drops leading characters of a set and tells whether there were any.
func (p *challengeParser) skip(set string) bool {
	before := len(p.rest)
	p.rest = strings.TrimLeft(p.rest, set)
	return len(p.rest) != before
}

// token reads a token of RFC 9110 section 5.6.2.
func (p *challengeParser) token() string {
	end := strings.IndexFunc(p.rest, func(r rune) bool { return !isTokenChar(r) })
	if end < 0 {
		end = len(p.rest)
	}
	word := p.rest[:end]
	p.rest = p.rest[end:]
	return word
}

// value reads a token or a quoted string.
func (p *challengeParser) value() string {
	if !strings.HasPrefix(p.rest, `"`) {
		return p.token()
	}
	var content strings.Builder
	for i := 1; i < len(p.rest); i++ {
		switch c := p.rest[i]; {
		case c == '"':
			p.rest = p.rest[i+1:]
			return content.String()
		case c == '\\' && i+1 < len(p.rest):
			i++
			content.WriteByte(p.rest[i])
		default:
			content.WriteByte(c)
		}
	}
	p.rest = ""
	return "" // the quote never ends
}

// token68 drops the credentials-like form of a challenge's content, such as
// the data of Negotiate.
func (p *challengeParser) token68() {
	end := strings.IndexFunc(p.rest, func(r rune) bool {
		return !isTokenChar(r) && r != '/' && r != '='
	})
	if end < 0 {
		end = len(p.rest)
	}
	after := strings.TrimLeft(p.rest[end:], " \t")
	word := p.rest[:end]
	plain := strings.TrimRight(word, "=")
	if strings.Contains(plain, "=") || after != "" && after[0] != ',' {
		return // a parameter
	}
	p.rest = after
}

// isPadding tells the end of a token68 from the sign of a parameter.
func isPadding(rest string) bool {
	rest = strings.TrimLeft(strings.TrimLeft(rest, "="), " \t")
	return rest == "" || rest[0] == ','
}

func isTokenChar(r rune) bool {
	return r > ' ' && r < 0x7f && !strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
}
