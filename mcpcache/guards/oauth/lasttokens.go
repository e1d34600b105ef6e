package oauth

import (
	"slices"
	"sync"
)

// keptTokens is how many tokens are remembered, so that an upstream that
// repeats one does not get it shown. Older ones have ended.
const keptTokens = 4

// lastTokens are the tokens that were issued last.
type lastTokens struct {
	mu     sync.Mutex
	tokens []string
}

func (l *lastTokens) add(token string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if token == "" || slices.Contains(l.tokens, token) {
		return
	}
	l.tokens = append(l.tokens, token)
	l.tokens = slices.Clone(l.tokens[max(0, len(l.tokens)-keptTokens):])
}

func (l *lastTokens) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.tokens)
}
