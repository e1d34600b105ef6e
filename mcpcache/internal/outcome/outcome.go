// Package outcome says what has become of a request. Both ways of a request use it: with one
// server, and with several. It tells metrics, logs and placeholders, and it tells clients in
// Cache-Status.
package outcome

// Outcome is what became of a request. It is a closed set: it labels metrics.
type Outcome uint8

const (
	// Bypass: forwarded without a lookup.
	Bypass Outcome = iota
	// Miss: the cache had nothing to answer with.
	Miss
	// Hit: answered from the cache.
	Hit
	// Stale: answered with a copy that is no longer fresh.
	Stale
	// Denied: refused, as rules hide what the request names, or it is not certain
	// what it names.
	Denied
	// Routed: handed to the one of several servers that it is for.
	Routed

	Count = int(Routed) + 1
)

// String returns the name that metrics, logs and placeholders use.
func (o Outcome) String() string {
	return [Count]string{"bypass", "miss", "hit", "stale", "denied", "routed"}[o]
}
