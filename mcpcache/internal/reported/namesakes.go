package reported

import (
	"maps"
	"slices"

	"go.uber.org/zap"
)

// WarnOfNamesakes warns once of each name that several servers of a configuration have if
// operators cannot take them for one: they share no cache, or have other rules.
func WarnOfNamesakes(servers []*Server, logger *zap.Logger) {
	byName := make(map[string][]*Server)
	for _, s := range servers {
		if !slices.ContainsFunc(byName[s.Called], s.same) {
			byName[s.Called] = append(byName[s.Called], s)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		if len(byName[name]) < 2 {
			continue
		}
		urls := make([]string, len(byName[name]))
		for i, s := range byName[name] {
			urls[i] = s.URLs[0]
		}
		logger.Warn("several handlers have one name, and differ in their server or rules: metrics, commands and Cache-Status do not tell them apart; give each its own with the option name",
			zap.String("name", name), zap.Strings("upstreams", urls))
	}
}

// same reports whether two servers are one to operators.
func (s *Server) same(other *Server) bool {
	return s.Backend.Feeds == other.Backend.Feeds && s.Rules.Same(other.Rules)
}
