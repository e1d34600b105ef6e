package mcpcache

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/feed"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// The defaults of the options that have one.
const (
	defaultEndpoint     = "/mcp"
	defaultStaleIfError = 24 * time.Hour
	defaultGate         = 2 * time.Second
	defaultAdmitFor     = 5 * time.Minute
	defaultMaxRequest   = 64 << 10
	defaultMemory       = 64 << 20
	defaultName         = "mcp_cache"
)

// settings is a Handler's configuration with the defaults filled in.
type settings struct {
	endpoint         string
	kinds            revision.KindSet
	staleIfError     time.Duration
	staleAfterNotice bool
	gate             time.Duration
	admitAll         bool
	admitFor         time.Duration
	partition        []string
	harmless         map[string]bool // canonical names
	host             string
	origins          origins
	maxRequest       int64
	memory           int64
	precompress      bool
	name             string
	feed             feed.Policy
}

// newSettings fills in the defaults and checks the values. Its errors name the
// option and what is allowed.
func (h *Handler) newSettings() (*settings, error) {
	s := &settings{
		endpoint:         orDefault(h.Endpoint, defaultEndpoint),
		staleIfError:     pointerOr(h.StaleIfError, defaultStaleIfError),
		staleAfterNotice: h.StaleAfterNotice,
		gate:             pointerOr(h.Gate, defaultGate),
		admitFor:         orDefault(time.Duration(h.AdmitFor), defaultAdmitFor),
		partition:        h.Partition,
		host:             h.Host,
		maxRequest:       orDefault(h.MaxRequest, defaultMaxRequest),
		memory:           orDefault(h.Memory, defaultMemory),
		precompress:      h.Precompress == nil || *h.Precompress,
		name:             orDefault(h.Name, defaultName),
		feed: feed.Policy{
			Refresh:         orDefault(time.Duration(h.Refresh), feed.DefaultRefresh),
			MaxList:         orDefault(h.MaxList, feed.DefaultMaxList),
			MaxPages:        orDefault(h.MaxPages, feed.DefaultMaxPages),
			PublicByDefault: h.Scope == "public",
			PublicAlways:    h.ScopeAlways,
		},
	}
	var err error
	if s.kinds, err = kindSet(h.Kinds); err != nil {
		return nil, err
	}
	s.feed.Kinds = s.kinds
	if err := h.setTimes(&s.feed); err != nil {
		return nil, err
	}
	if s.origins, err = parseOrigins(h.Origins); err != nil {
		return nil, err
	}
	if s.harmless, err = harmlessSet(h.Harmless); err != nil {
		return nil, err
	}
	switch h.Admit {
	case "", "upstream":
	case "all":
		s.admitAll = true
		if h.AdmitFor != 0 {
			return nil, errors.New("admit_for: only with admit \"upstream\"")
		}
	default:
		return nil, fmt.Errorf("admit: %q is not one of upstream, all", h.Admit)
	}
	if h.Scope != "" && h.Scope != "private" && h.Scope != "public" {
		return nil, fmt.Errorf("scope: %q is not one of private, public", h.Scope)
	}
	if h.ScopeAlways && h.Scope != "public" {
		return nil, errors.New("scope_always: only with scope \"public\"")
	}
	return s, s.check()
}

// validName is what a handler may be called: an HTTP token that is safe in a
// URL path too.
var validName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

// longest is the longest duration of any option: ten years. Moments that far
// away can still be counted in nanoseconds.
const longest = 10 * 365 * 24 * time.Hour

// check tells what is out of range.
func (s *settings) check() error {
	if !strings.HasPrefix(s.endpoint, "/") || strings.ContainsAny(s.endpoint, "?#{} ") {
		return fmt.Errorf("endpoint: %q is not an absolute path without query, fragment and placeholders", s.endpoint)
	}
	if !validName.MatchString(s.name) {
		return fmt.Errorf("name: %q is not 1 to 64 letters, digits, '_', '.' or '-'", s.name)
	}
	if s.host != "" && !IsHost(s.host) {
		return fmt.Errorf("host: %q is not a name or address, with or without a port", s.host)
	}
	for _, option := range []struct {
		name  string
		value time.Duration
		least time.Duration
	}{
		{"refresh", s.feed.Refresh, 1},
		{"admit_for", s.admitFor, 1},
		{"gate", s.gate, 0},
		{"stale_if_error", s.staleIfError, 0},
	} {
		if err := checkDuration(option.name, option.value, option.least); err != nil {
			return err
		}
	}
	for _, option := range []struct {
		name         string
		value, least int64
	}{
		{"max_request", s.maxRequest, 1},
		{"max_list", s.feed.MaxList, 1},
		{"max_pages", int64(s.feed.MaxPages), 1},
		{"memory", s.memory, 1 << 20},
	} {
		if option.value < option.least {
			return fmt.Errorf("%s: %d is too small, it must be at least %d", option.name, option.value, option.least)
		}
	}
	return nil
}

// checkDuration tells whether an option's value is out of range.
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
			return 0, fmt.Errorf("kinds: %q is not one of %s", name, revision.KindNames())
		}
		set |= revision.SetOf(k)
	}
	return set, nil
}

func orDefault[T comparable](value, otherwise T) T {
	var zero T
	if value == zero {
		return otherwise
	}
	return value
}

func pointerOr(value *caddy.Duration, otherwise time.Duration) time.Duration {
	if value == nil {
		return otherwise
	}
	return time.Duration(*value)
}
