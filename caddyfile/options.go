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

func readKinds(to *mcpcache.ServerOptions, o option) (err error) {
	to.Kinds, err = o.someOf(mcpcache.Kinds())
	return err
}

func readEras(to *mcpcache.ServerOptions, o option) (err error) {
	to.Eras, err = o.someOf(mcpcache.Eras())
	return err
}

func readTTL(to *mcpcache.ServerOptions, o option) error {
	return o.durationByKind(&to.TTL, &to.TTLByKind)
}

func readMinTTL(to *mcpcache.ServerOptions, o option) error {
	return o.durationByKind(&to.MinTTL, &to.MinTTLByKind)
}

func readMaxTTL(to *mcpcache.ServerOptions, o option) error {
	return o.durationByKind(&to.MaxTTL, &to.MaxTTLByKind)
}

func readRefresh(to *mcpcache.ServerOptions, o option) error { return o.duration(&to.Refresh) }

func readStaleIfError(to *mcpcache.ServerOptions, o option) error {
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
		to.StaleAfterNotice = true
	}
	to.StaleIfError = &d
	return nil
}

func readGate(to *mcpcache.EndpointOptions, o option) error {
	value, err := o.argument(aDurationOrZero)
	if err != nil {
		return err
	}
	d, err := o.parseDuration(aDurationOrZero, value, 0)
	if err != nil {
		return err
	}
	to.Gate = &d
	return nil
}

func readScope(to *mcpcache.ServerOptions, o option) error {
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
		to.ScopeAlways = true
	}
	to.Scope = args[0]
	return nil
}

func readPartition(to *mcpcache.OneServerOptions, o option) (err error) {
	const takes = "one or more placeholders, such as {header.X-Tenant}"
	to.Partition, err = o.distinct(takes, func(placeholder string) error {
		if !placeholderPattern.MatchString(placeholder) {
			return o.refuse(takes, placeholder)
		}
		return nil
	})
	return err
}

func readHarmless(to *mcpcache.OneServerOptions, o option) error {
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
	to.Harmless = names
	return nil
}

func readAdmit(to *mcpcache.EndpointOptions, o option) error {
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
		to.AdmitFor = d
	default:
		return o.refuse(takes, args...)
	}
	to.Admit = args[0]
	return nil
}

func readOrigins(to *mcpcache.EndpointOptions, o option) error {
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
	to.Origins = origins
	return nil
}

func readGuard(to *mcpcache.ServerOptions, o option) (err error) {
	to.GuardRaw, err = guest[guards.Guard](o, "guard", guards.Namespace,
		"the name of a guard, such as bearer, and what that guard takes")
	return err
}

func readStore(to *mcpcache.EndpointOptions, o option) (err error) {
	to.StoreRaw, err = guest[stores.Store](o, "store", stores.Namespace,
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

func readEndpoint(to *mcpcache.SharedOptions, o option) error {
	endpoint, err := o.argument(aPath)
	if err != nil {
		return err
	}
	if !isPath(endpoint) {
		return o.refuse(aPath, shown(endpoint))
	}
	if path := to.Endpoint; path != "" && path != endpoint {
		return o.Errf("%s %s contradicts the path %s of the upstream URL; one of them is enough", o.name, endpoint, path)
	}
	to.Endpoint = endpoint
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
	p.server.Host = hosts[0]
	if p.handler != nil {
		p.handler.SameHosts = hosts[1:]
	}
	return nil
}

func readClientName(to *mcpcache.ServerOptions, o option) error {
	const takes = "one name of 1 to 64 letters, digits, spaces and any of ._/@-"
	name, err := o.argument(takes)
	if err != nil {
		return err
	}
	if !mcpcache.IsClientName(name) {
		return o.refuse(takes, name)
	}
	to.ClientName = name
	return nil
}

func readMaxRequest(to *mcpcache.EndpointOptions, o option) error {
	return o.size(&to.MaxRequest, aSize, 1)
}
func readMaxCall(to *mcpcache.EndpointOptions, o option) error { return o.size(&to.MaxCall, aSize, 1) }
func readMaxList(to *mcpcache.SharedOptions, o option) error   { return o.size(&to.MaxList, aSize, 1) }
func readMemory(to *mcpcache.EndpointOptions, o option) error {
	return o.size(&to.Memory, aMemorySize, mcpcache.LeastMemory)
}

func readPrecompress(to *mcpcache.EndpointOptions, o option) error {
	const takes = "on or off"
	value, err := o.argument(takes)
	if err != nil {
		return err
	}
	if value != "on" && value != "off" {
		return o.refuse(takes, value)
	}
	on := value == "on"
	to.Precompress = &on
	return nil
}

func readMaxPages(to *mcpcache.ServerOptions, o option) error {
	return o.number(&to.MaxPages, "one whole number above 0", 1, math.MaxInt32)
}

// readUnlisted reads `unlisted allow|deny`.
func readUnlisted(to *mcpcache.EndpointOptions, o option) error {
	return o.checked(&to.Unlisted, "one of allow, deny", mcpcache.CheckUnlisted)
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

// readPageSize reads `page_size <n>`. 0 is the same as leaving it out.
func readPageSize(to *mcpcache.OneServerOptions, o option) error {
	takes := fmt.Sprintf("one whole number from 0, for one page, to %d", mcpcache.MostPageSize)
	return o.number(&to.PageSize, takes, 0, mcpcache.MostPageSize)
}

func readNameLimit(to *mcpcache.ToolkitOptions, o option) error {
	takes := fmt.Sprintf("one whole number from %d to %d", mcpcache.LeastNameLimit, mcpcache.MostNameLimit)
	return o.number(&to.NameLimit, takes, mcpcache.LeastNameLimit, mcpcache.MostNameLimit)
}

func readSessionTTL(to *mcpcache.ToolkitOptions, o option) error { return o.duration(&to.SessionTTL) }

func readMaxSessions(to *mcpcache.ToolkitOptions, o option) error {
	takes := fmt.Sprintf("one whole number from 1 to %d", mcpcache.MostSessions)
	return o.number(&to.MaxSessions, takes, 1, mcpcache.MostSessions)
}

func readSecretFile(to *mcpcache.EndpointOptions, o option) (err error) {
	const takes = "the name of one file"
	if to.SecretFile, err = o.argument(takes); err == nil && to.SecretFile == "" {
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
	p.shared.Name = name
	return nil
}
