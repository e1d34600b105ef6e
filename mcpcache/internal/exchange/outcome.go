package exchange

// Outcome is what became of a request. It is a closed set: it labels metrics.
type Outcome uint8

const (
	// OutcomeBypass: forwarded without a lookup.
	OutcomeBypass Outcome = iota
	// OutcomeMiss: the cache had nothing to answer with.
	OutcomeMiss
	// OutcomeHit: answered from the cache.
	OutcomeHit
	// OutcomeStale: answered with a copy that is no longer fresh.
	OutcomeStale
	// OutcomeDenied: refused, as rules hide what the request names, or it is not certain
	// what it names.
	OutcomeDenied
	// OutcomeRouted: handed to the one of several servers that it is for.
	OutcomeRouted

	NumOutcomes = int(OutcomeRouted) + 1
)

// String returns the name that metrics, logs and placeholders use.
func (o Outcome) String() string {
	return [NumOutcomes]string{"bypass", "miss", "hit", "stale", "denied", "routed"}[o]
}

// outcome returns what becomes of a request whose lookup found f.
func (f found) outcome() Outcome {
	switch {
	case f.reason != understood:
		return OutcomeBypass
	case f.entry == nil, f.fetched, f.status != "":
		return OutcomeMiss
	case f.stale:
		return OutcomeStale
	}
	return OutcomeHit
}
