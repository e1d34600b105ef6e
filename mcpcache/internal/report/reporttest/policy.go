package reporttest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/policy"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/report"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// Policy is rules without Caddy: a rule that begins with a name and a colon is about
// callers of that name, for whom ViewAs is asked with "who=NAME".
type Policy struct {
	// State are the rules; a test changes how they are.
	State []report.Rule
	// Failing are the names whose matchers fail.
	Failing []string

	set *policy.Set
	who []string
}

// NewPolicy reads rules such as "allow tools a*" or "admin: deny prompts x".
func NewPolicy(t *testing.T, texts ...string) *Policy {
	t.Helper()
	p := new(Policy)
	parsed := make([]policy.Rule, len(texts))
	for i, text := range texts {
		who, line, about := strings.Cut(text, ": ")
		state := report.Rule{Number: i}
		if about {
			state.Match = json.RawMessage(fmt.Sprintf(`[{"name":%q}]`, who))
		} else {
			who, line = "", text
		}
		words := strings.Fields(line)
		state.Effect, state.Kind, state.Items = words[0], words[1], words[2:]
		kind, _ := revision.ParseKind(state.Kind)
		parsed[i] = policy.Rule{Kind: kind, Everybody: !about}
		if state.Effect == policy.Deny.String() {
			parsed[i].Effect = policy.Deny
		}
		for _, item := range state.Items {
			pattern, err := policy.ParsePattern(kind, item)
			if err != nil {
				t.Fatal(err)
			}
			parsed[i].Items = append(parsed[i].Items, pattern)
		}
		p.who, p.State = append(p.who, who), append(p.State, state)
	}
	p.set = policy.NewSet(parsed, true)
	return p
}

// View is what callers of those names may see.
func (p *Policy) View(names ...string) *policy.View {
	var m policy.Matched
	for i, who := range p.who {
		if slices.Contains(names, who) {
			m.Add(i)
		}
	}
	return p.set.View(m)
}

// Rules implements [report.Policy].
func (p *Policy) Rules() []report.Rule { return p.State }

// Set implements [report.Policy].
func (p *Policy) Set() *policy.Set { return p.set }

// ViewAs implements [report.Policy].
func (p *Policy) ViewAs(_ context.Context, as []string) (*policy.View, map[int]error, error) {
	var names []string
	for _, text := range as {
		name, ok := strings.CutPrefix(text, "who=")
		if !ok {
			return nil, nil, fmt.Errorf("%q is not who=NAME", text)
		}
		names = append(names, name)
	}
	var m policy.Matched
	failed := make(map[int]error)
	for i, who := range p.who {
		fails := slices.Contains(p.Failing, who)
		if fails {
			failed[i] = errors.New("it does")
		}
		if fails && p.State[i].Effect == policy.Deny.String() || !fails && slices.Contains(names, who) {
			m.Add(i)
		}
	}
	return p.set.View(m), failed, nil
}

// Interface guards
var _ report.Policy = (*Policy)(nil)
