package caddyfile

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	caddyparse "github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"golang.org/x/net/http/httpguts"

	"github.com/caddy-mcp/mcp-cache/mcpcache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/guards"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores"
)

var placeholderPattern = regexp.MustCompile(`^\{[^{}\s]+\}$`)

func (p *parser) kinds(o option) (err error) {
	p.handler.Kinds, err = o.someOf(mcpcache.Kinds())
	return err
}

func (p *parser) eras(o option) (err error) {
	p.handler.Eras, err = o.someOf(mcpcache.Eras())
	return err
}

func (p *parser) ttl(o option) error {
	return o.durationByKind(&p.handler.TTL, &p.handler.TTLByKind)
}

func (p *parser) minTTL(o option) error {
	return o.durationByKind(&p.handler.MinTTL, &p.handler.MinTTLByKind)
}

func (p *parser) maxTTL(o option) error {
	return o.durationByKind(&p.handler.MaxTTL, &p.handler.MaxTTLByKind)
}

func (p *parser) refresh(o option) error { return o.duration(&p.handler.Refresh) }

func (p *parser) staleIfError(o option) error {
	const takes = aDurationOrZero + ", and then optionally the word after_notice"
	args, err := o.arguments(takes, 1, 2)
	if err != nil {
		return err
	}
	d, err := o.parseDuration(takes, args[0], 0)
	if err != nil {
		return err
	}
	if len(args) == 2 {
		if args[1] != "after_notice" {
			return o.refuse(takes, args[1])
		}
		if d == 0 {
			return o.Errf("%s 0 is off and leaves nothing to after_notice", o.name)
		}
		p.handler.StaleAfterNotice = true
	}
	p.handler.StaleIfError = &d
	return nil
}

func (p *parser) gate(o option) error {
	value, err := o.argument(aDurationOrZero)
	if err != nil {
		return err
	}
	d, err := o.parseDuration(aDurationOrZero, value, 0)
	if err != nil {
		return err
	}
	p.handler.Gate = &d
	return nil
}

func (p *parser) scope(o option) error {
	const takes = "private or public, and after public optionally the word always"
	args, err := o.arguments(takes, 1, 2)
	if err != nil {
		return err
	}
	if args[0] != "private" && args[0] != "public" {
		return o.refuse(takes, args...)
	}
	if len(args) == 2 {
		if args[0] != "public" || args[1] != "always" {
			return o.refuse(takes, args...)
		}
		p.handler.ScopeAlways = true
	}
	p.handler.Scope = args[0]
	return nil
}

func (p *parser) partition(o option) (err error) {
	const takes = "one or more placeholders, such as {header.X-Tenant}"
	p.handler.Partition, err = o.distinct(takes, func(placeholder string) error {
		if !placeholderPattern.MatchString(placeholder) {
			return o.refuse(takes, placeholder)
		}
		return nil
	})
	return err
}

func (p *parser) harmless(o option) error {
	const takes = "one or more names of request headers, such as X-Conversation-Id, or of cookies, such as Cookie:AWSALB"
	names, err := o.arguments(takes, 1, math.MaxInt)
	if err != nil {
		return err
	}
	seen := make(map[string]bool)
	for _, name := range names {
		canonical, cookie := http.CanonicalHeaderKey(name), mcpcache.IsCookie(name)
		switch {
		case !cookie && (!httpguts.ValidHeaderFieldName(name) || strings.Contains(name, "*")):
			return o.refuse(takes, name)
		case !cookie && mcpcache.IsCredential(name):
			return o.Errf("%s cannot name %s: it says who a caller is, and without it one would be given the lists of another",
				o.name, canonical)
		case seen[canonical]:
			return o.Errf("%s names %q twice", o.name, canonical)
		}
		seen[canonical] = true
	}
	p.handler.Harmless = names
	return nil
}

func (p *parser) admit(o option) error {
	const takes = "upstream, optionally with a duration above 0, such as 5m, or all"
	args, err := o.arguments(takes, 1, 2)
	if err != nil {
		return err
	}
	switch {
	case args[0] == "all" && len(args) == 1:
	case args[0] == "upstream" && len(args) == 1:
	case args[0] == "upstream":
		var d caddy.Duration
		if d, err = o.parseDuration(takes, args[1], 1); err != nil {
			return err
		}
		p.handler.AdmitFor = d
	default:
		return o.refuse(takes, args...)
	}
	p.handler.Admit = args[0]
	return nil
}

func (p *parser) origins(o option) error {
	const takes = "one or more origins scheme://host[:port] without a path, such as https://app.example.com, null, or * for any page"
	origins, err := o.arguments(takes, 1, math.MaxInt)
	if err != nil {
		return err
	}
	seen := make(map[string]bool)
	for _, origin := range origins {
		if !mcpcache.IsOrigin(origin) {
			return o.refuse(takes, shown(origin))
		}
		if seen[strings.ToLower(origin)] {
			return o.Errf("%s names %q twice", o.name, origin)
		}
		seen[strings.ToLower(origin)] = true
	}
	p.handler.Origins = origins
	return nil
}

func (p *parser) guard(o option) (err error) {
	p.handler.GuardRaw, err = guest[guards.Guard](o, "guard", guards.Namespace,
		"the name of a guard, such as bearer, and what that guard takes")
	return err
}

func (p *parser) store(o option) (err error) {
	p.handler.StoreRaw, err = guest[stores.Store](o, "store", stores.Namespace,
		"the name of a store, such as caddy or off, and what that store takes")
	return err
}

// guest reads the name of a guest module and what it takes. The module is
// named again in its JSON under key.
func guest[T any](o option, key, namespace, takes string) (json.RawMessage, error) {
	if !o.NextArg() || o.Val() == "" {
		return nil, o.refuse(takes)
	}
	name := o.Val()
	id := namespace + "." + name
	if _, err := caddy.GetModule(id); err != nil {
		names := modulesOf(namespace)
		near := mcpcache.DidYouMean(name, names)
		if near == "" { // what is near to no name may be the secret itself
			return nil, o.Errf("%s: what it names is not built into this Caddy; there are %s%s", key, strings.Join(names, ", "), mcpcache.BuildHint(namespace))
		}
		return nil, o.Errf("%s %s: no such %[1]s is built into this Caddy%[3]s; there are %[4]s%[5]s", key, name, near, strings.Join(names, ", "), mcpcache.BuildHint(namespace))
	}
	module, err := caddyparse.UnmarshalModule(o.Dispenser, id)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", key, name, err)
	}
	if _, ok := module.(T); !ok {
		return nil, o.Errf("module %s (%T) is not a %s", id, module, key)
	}
	return encodeModule(o.Dispenser, module, key, name)
}

// modulesOf returns the names of the modules in a namespace.
func modulesOf(namespace string) []string {
	modules := caddy.GetModules(namespace)
	names := make([]string, 0, len(modules))
	for _, m := range modules {
		names = append(names, m.ID.Name())
	}
	return names
}

func (p *parser) endpoint(o option) error {
	endpoint, err := o.argument(aPath)
	if err != nil {
		return err
	}
	if !isPath(endpoint) {
		return o.refuse(aPath, shown(endpoint))
	}
	if path := p.handler.Endpoint; path != "" && path != endpoint {
		return o.Errf("%s %s contradicts the path %s of the upstream URL; one of them is enough", o.name, endpoint, path)
	}
	p.handler.Endpoint = endpoint
	return nil
}

func (p *parser) host(o option) error {
	const takes = "one or more names or addresses, with or without a port, such as mcp.example.com"
	hosts, err := o.distinct(takes, func(host string) error {
		if !mcpcache.IsHost(host) {
			return o.refuse(takes, shown(host))
		}
		return nil
	})
	if err != nil {
		return err
	}
	if p.into != nil && len(hosts) > 1 {
		return o.Errf("%s of a server in a toolkit takes one name: no Host of a client reaches the server", o.name)
	}
	p.handler.Host, p.handler.SameHosts = hosts[0], hosts[1:]
	return nil
}

func (p *parser) clientName(o option) error {
	const takes = "one name of 1 to 64 letters, digits, spaces and any of ._/@-"
	name, err := o.argument(takes)
	if err != nil {
		return err
	}
	if !mcpcache.IsClientName(name) {
		return o.refuse(takes, name)
	}
	p.handler.ClientName = name
	return nil
}

func (p *parser) maxRequest(o option) error { return o.size(&p.handler.MaxRequest, aSize, 1) }
func (p *parser) maxCall(o option) error    { return o.size(&p.handler.MaxCall, aSize, 1) }
func (p *parser) maxList(o option) error    { return o.size(&p.handler.MaxList, aSize, 1) }
func (p *parser) memory(o option) error {
	return o.size(&p.handler.Memory, aMemorySize, mcpcache.LeastMemory)
}

func (p *parser) precompress(o option) error {
	const takes = "on or off"
	value, err := o.argument(takes)
	if err != nil {
		return err
	}
	if value != "on" && value != "off" {
		return o.refuse(takes, value)
	}
	on := value == "on"
	p.handler.Precompress = &on
	return nil
}

func (p *parser) maxPages(o option) error {
	return o.number(&p.handler.MaxPages, "one whole number above 0", 1, math.MaxInt32)
}

// unlisted reads `unlisted allow|deny`.
func (p *parser) unlisted(o option) error {
	return o.checked(&p.handler.Unlisted, "one of allow, deny", mcpcache.CheckUnlisted)
}

// checked reads one argument that check accepts. An empty one is none.
func (o option) checked(into *string, takes string, check func(string) error) error {
	word, err := o.argument(takes)
	if err != nil {
		return err
	}
	if word == "" || check(word) != nil {
		return o.refuse(takes, word)
	}
	*into = word
	return nil
}

// pageSize reads `page_size <n>`. 0 is the same as leaving it out.
func (p *parser) pageSize(o option) error {
	takes := fmt.Sprintf("one whole number from 0, for one page, to %d", mcpcache.MostPageSize)
	return o.number(&p.handler.PageSize, takes, 0, mcpcache.MostPageSize)
}

func (p *parser) nameLimit(o option) error {
	takes := fmt.Sprintf("one whole number from %d to %d", mcpcache.LeastNameLimit, mcpcache.MostNameLimit)
	return o.number(&p.handler.NameLimit, takes, mcpcache.LeastNameLimit, mcpcache.MostNameLimit)
}

func (p *parser) sessionTTL(o option) error { return o.duration(&p.handler.SessionTTL) }

func (p *parser) maxSessions(o option) error {
	takes := fmt.Sprintf("one whole number from 1 to %d", mcpcache.MostSessions)
	return o.number(&p.handler.MaxSessions, takes, 1, mcpcache.MostSessions)
}

func (p *parser) secretFile(o option) (err error) {
	const takes = "the name of one file"
	if p.handler.SecretFile, err = o.argument(takes); err == nil && p.handler.SecretFile == "" {
		return o.refuse(takes, "")
	}
	return err
}

// number reads an option that takes one whole number.
func (o option) number(to *int, takes string, least, most int64) error {
	text, err := o.argument(takes)
	if err != nil {
		return err
	}
	value, err := strconv.ParseInt(text, 10, 64)
	if err != nil || value < least || value > most {
		return o.refuse(takes, text)
	}
	*to = int(value)
	return nil
}

func (p *parser) name(o option) error {
	const takes = "1 to 64 of the characters A-Z, a-z, 0-9, _, . and -"
	name, err := o.argument(takes)
	if err != nil {
		return err
	}
	if !mcpcache.IsName(name) {
		return o.refuse(takes, name)
	}
	p.handler.Name = name
	return nil
}
