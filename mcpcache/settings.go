package mcpcache

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/backend"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/exchange"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/feed"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/identity"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/nearest"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/origin"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/site"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/version"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores"
)

// options are those that set up one server.
type options struct {
	*ServerOptions
	*SharedOptions
	*EndpointOptions
	*OneServerOptions
}

// settings are options with the defaults filled in.
type settings struct {
	partition []string
	harmless  identity.Headers
	exchange  exchange.Settings
	backend   *backend.Settings
}

// unlistedAllow is the value of the option unlisted by which rules go by names alone.
const unlistedAllow = "allow"

// CheckUnlisted returns an error if the option unlisted has no such value.
func CheckUnlisted(what string) error {
	if what != "" && what != unlistedAllow && what != "deny" {
		return fmt.Errorf("unlisted: %q is not one of allow, deny", what)
	}
	return nil
}

// admitAll is the value of the option admit by which handlers in front let callers in.
const admitAll = "all"

// newSettings fills in the defaults and checks the values. Its errors name the
// option and what is allowed.
func (o options) newSettings() (*settings, error) {
	s := &settings{
		partition: o.Partition, exchange: exchange.Defaults(), backend: backend.Defaults(),
	}
	s.exchange.Path = cmp.Or(o.Endpoint, s.exchange.Path)
	s.exchange.Name = cmp.Or(o.Name, s.exchange.Name)
	s.exchange.MaxRequest = cmp.Or(o.MaxRequest, s.exchange.MaxRequest)
	b := s.backend
	b.Stale.IfError = pointerOr(o.StaleIfError, b.Stale.IfError)
	b.Stale.AfterNotice = o.StaleAfterNotice
	b.Gate = pointerOr(o.Gate, b.Gate)
	b.AdmitFor = cmp.Or(time.Duration(o.AdmitFor), b.AdmitFor)
	b.Host = o.Host
	b.Memory = cmp.Or(o.Memory, b.Memory)
	s.exchange.MaxCall = cmp.Or(o.MaxCall, max(min(s.exchange.MaxCall, b.Memory/16), s.exchange.MaxRequest))
	b.Precompress = o.Precompress == nil || *o.Precompress
	b.Feed.Refresh = cmp.Or(time.Duration(o.Refresh), b.Feed.Refresh)
	b.Feed.MaxList = cmp.Or(o.MaxList, b.Feed.MaxList)
	b.Feed.MaxPages = cmp.Or(o.MaxPages, b.Feed.MaxPages)
	b.Feed.Name = o.ClientName
	b.Feed.PublicByDefault = o.Scope == "public"
	b.Feed.PublicAlways = o.ScopeAlways
	var err error
	if b.Kinds, err = kindSet(o.Kinds); err != nil {
		return nil, err
	}
	b.Feed.Kinds = b.Kinds
	if b.Feed.Eras, err = chosenEras(o.Eras); err != nil {
		return nil, err
	}
	if err := o.setTimes(&b.Feed); err != nil {
		return nil, err
	}
	if s.exchange.Origins, err = origin.Parse(o.Origins); err != nil {
		return nil, err
	}
	s.exchange.Origins.Names = new(site.Hosts).Name
	if s.harmless, err = identity.ParseHeaders(o.Harmless); err != nil {
		return nil, err
	}
	switch o.Admit {
	case "", "upstream":
	case admitAll:
		b.AdmitAll = true
		if o.AdmitFor != 0 {
			return nil, errors.New("admit_for: only with admit \"upstream\"")
		}
	default:
		return nil, fmt.Errorf("admit: %q is not one of upstream, all", o.Admit)
	}
	if err := CheckUnlisted(o.Unlisted); err != nil {
		return nil, err
	}
	if o.Scope != "" && o.Scope != "private" && o.Scope != "public" {
		return nil, fmt.Errorf("scope: %q is not one of private, public", o.Scope)
	}
	if o.ScopeAlways && o.Scope != "public" {
		return nil, errors.New("scope_always: only with scope \"public\"")
	}
	return s, s.check()
}

// MostPageSize is the largest value of the option page_size, in items.
const MostPageSize = 1_000_000

// LeastMemory is the smallest value of the option memory, in bytes.
const LeastMemory = 1 << 20

// Kinds returns the names of the kinds that options can name.
func Kinds() []string { return revision.KindNames() }

// Eras returns the names of the eras of MCP that the option eras can name.
func Eras() []string { return revision.EraNames() }

// DidYouMean returns what errors say behind a word that is none of those names:
// " (did you mean ttl?)", or "" if none of them is near.
func DidYouMean(word string, names []string) string { return nearest.Question(word, names) }

// IsOrigin reports whether the option origins can have a value.
func IsOrigin(value string) bool { return origin.IsOrigin(value) }

var validName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

// IsName reports whether a handler may be called that: an HTTP token that is
// safe in a URL path too.
func IsName(name string) bool { return validName.MatchString(name) }

var validClientName = regexp.MustCompile(`^[A-Za-z0-9._/@ -]{1,64}$`)

// IsClientName reports whether the feed may call itself that.
func IsClientName(name string) bool { return validClientName.MatchString(name) }

// IsHost reports whether a value can be the Host that the feed sends: a name or an address, with
// or without a port.
func IsHost(value string) bool { return origin.IsHost(value) }

// IsCookie reports whether a value of the option harmless is a cookie.
func IsCookie(value string) bool { return identity.IsCookie(value) }

// IsCredential reports whether a request header is known to say who a caller
// is. Others may do so too.
func IsCredential(name string) bool { return identity.IsCredential(name) }

// longest is the longest duration of any option: ten years. Times that far away still fit in
// Unix nanoseconds.
const longest = 10 * 365 * 24 * time.Hour

// check returns an error if a value is out of range.
func (s *settings) check() error {
	if !strings.HasPrefix(s.exchange.Path, "/") || strings.ContainsAny(s.exchange.Path, "?#{} ") {
		return fmt.Errorf("endpoint: %q is not an absolute path without query, fragment and placeholders", s.exchange.Path)
	}
	if !IsName(s.exchange.Name) {
		return fmt.Errorf("name: %q is not 1 to 64 letters, digits, '_', '.' or '-'", s.exchange.Name)
	}
	if s.backend.Feed.Name != "" && !IsClientName(s.backend.Feed.Name) {
		return fmt.Errorf("client_name: %q is not 1 to 64 letters, digits, spaces and any of ._/@-", s.backend.Feed.Name)
	}
	if s.backend.Host != "" && !IsHost(s.backend.Host) {
		return fmt.Errorf("host: %q is not a name or address, with or without a port", s.backend.Host)
	}
	for _, option := range []struct {
		name  string
		value time.Duration
		least time.Duration
	}{
		{"refresh", s.backend.Feed.Refresh, 1},
		{"admit_for", s.backend.AdmitFor, 1},
		{"gate", s.backend.Gate, 0},
		{"stale_if_error", s.backend.Stale.IfError, 0},
	} {
		if err := checkDuration(option.name, option.value, option.least); err != nil {
			return err
		}
	}
	for _, option := range []struct {
		name         string
		value, least int64
	}{
		{"max_request", s.exchange.MaxRequest, 1},
		{"max_call", s.exchange.MaxCall, s.exchange.MaxRequest},
		{"max_list", s.backend.Feed.MaxList, 1},
		{"max_pages", int64(s.backend.Feed.MaxPages), 1},
		{"memory", s.backend.Memory, LeastMemory},
	} {
		if option.value < option.least {
			return fmt.Errorf("%s: %d is too small, it must be at least %d", option.name, option.value, option.least)
		}
	}
	return s.checkMaxCall()
}

// checkMaxCall returns an error if there is no room for the largest request that is read
// for what it names: work in progress has an eighth of the memory, and no single one may
// have all of that. What is looked into anyway needs none of it.
func (s *settings) checkMaxCall() error {
	most := max(s.backend.Memory/16, s.exchange.MaxRequest)
	if s.exchange.MaxCall <= most {
		return nil
	}
	err := fmt.Errorf("max_call: %d is too large, it may be at most %d, a sixteenth of the memory", s.exchange.MaxCall, most)
	if mib := (s.exchange.MaxCall-1)>>16 + 1; mib <= math.MaxInt64>>20 {
		err = fmt.Errorf("%w: set memory to %dMiB (%d) or more", err, mib, mib<<20)
	}
	return err
}

// checkDuration returns an error if an option's value is out of range.
func checkDuration(name string, value, least time.Duration) error {
	if value < least {
		return fmt.Errorf("%s: %s is too short, it must be at least %s", name, value, least)
	}
	if value > longest {
		return fmt.Errorf("%s: %s is too long, it may be at most %s", name, value, longest)
	}
	return nil
}

func kindSet(names []string) (revision.KindSet, error) {
	if len(names) == 0 {
		return revision.SetOf(revision.Kinds()...), nil
	}
	var set revision.KindSet
	for _, name := range names {
		k, ok := revision.ParseKind(name)
		if !ok {
			return 0, fmt.Errorf("kinds: %q is not one of %s", name, strings.Join(revision.KindNames(), ", "))
		}
		set |= revision.SetOf(k)
	}
	return set, nil
}

// chosenEras returns the eras with those names; nil if they are all of them, which is
// what no names at all mean.
func chosenEras(names []string) ([]revision.Era, error) {
	var eras []revision.Era
	for _, name := range names {
		era, ok := revision.ParseEra(name)
		if !ok {
			return nil, fmt.Errorf("eras: %q is not one of %s%s", name, strings.Join(Eras(), ", "), DidYouMean(name, Eras()))
		}
		if slices.Contains(eras, era) {
			return nil, fmt.Errorf("eras: %q is named twice; name each of %s at most once", name, strings.Join(Eras(), ", "))
		}
		eras = append(eras, era)
	}
	if len(eras) == len(Eras()) {
		return nil, nil
	}
	return eras, nil
}

func pointerOr(value *caddy.Duration, otherwise time.Duration) time.Duration {
	if value == nil {
		return otherwise
	}
	return time.Duration(*value)
}

// timeOption is one of the options ttl, min_ttl and max_ttl: for all kinds, and for single
// ones.
type timeOption struct {
	name    string
	all     caddy.Duration
	byKind  map[string]caddy.Duration
	byField func(*feed.Times) *time.Duration
}

// setTimes fills in how long lists are fresh. Its errors name the option, and the
// kind if it is about one.
func (o *ServerOptions) setTimes(p *feed.Policy) error {
	p.Times = feed.Times{TTL: feed.DefaultTTL, MaxTTL: feed.DefaultMaxTTL}
	for _, option := range [...]timeOption{
		{"ttl", o.TTL, o.TTLByKind, func(t *feed.Times) *time.Duration { return &t.TTL }},
		{"min_ttl", o.MinTTL, o.MinTTLByKind, func(t *feed.Times) *time.Duration { return &t.MinTTL }},
		{"max_ttl", o.MaxTTL, o.MaxTTLByKind, func(t *feed.Times) *time.Duration { return &t.MaxTTL }},
	} {
		if err := option.set(p); err != nil {
			return err
		}
	}
	for _, k := range revision.Kinds() {
		if t := p.Of(k); t.MinTTL > t.MaxTTL {
			return fmt.Errorf("min_ttl: %s of %s is longer than their max_ttl of %s", t.MinTTL, k, t.MaxTTL)
		}
	}
	return nil
}

func (o timeOption) set(p *feed.Policy) error {
	if o.all != 0 {
		if err := checkDuration(o.name, time.Duration(o.all), 1); err != nil {
			return err
		}
		*o.byField(&p.Times) = time.Duration(o.all)
	}
	for _, name := range slices.Sorted(maps.Keys(o.byKind)) {
		k, known := revision.ParseKind(name)
		if !known {
			return fmt.Errorf("%s_by_kind: %q is not one of %s", o.name, name, strings.Join(revision.KindNames(), ", "))
		}
		value := time.Duration(o.byKind[name])
		if err := checkDuration(o.name+"_by_kind: "+name, value, 1); err != nil {
			return err
		}
		*o.byField(&p.ByKind[k]) = value
	}
	return nil
}

// BuildHint returns what to add to an error because of which a guest of that namespace may be
// missing: how those are built in that do not come with this package. It is "" if none is
// missing.
func BuildHint(namespace string) string {
	if _, err := caddy.GetModule(stores.Namespace + ".redis"); err == nil || namespace != stores.Namespace {
		return ""
	}
	return "; redis is built in with: xcaddy build --with " + version.Module + " --with " + version.Module + "/mcpcache/stores/redis"
}
