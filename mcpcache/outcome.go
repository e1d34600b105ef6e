package mcpcache

// outcome is what became of a request. It is a closed set: it labels metrics.
type outcome uint8

const (
	// outcomeBypass: forwarded without a look into the cache.
	outcomeBypass outcome = iota
	// outcomeMiss: the cache had nothing to answer with.
	outcomeMiss
	// outcomeHit: answered from the cache.
	outcomeHit
	// outcomeStale: answered with a copy that is no longer fresh.
	outcomeStale

	numOutcomes = int(outcomeStale) + 1
)

// String returns the name that metrics, logs and placeholders use.
func (o outcome) String() string {
	return [numOutcomes]string{"bypass", "miss", "hit", "stale"}[o]
}

// outcome is what becomes of a request for which the cache had f.
func (f found) outcome() outcome {
	switch {
	case f.entry == nil && f.reason != understood:
		return outcomeBypass
	case f.entry == nil, f.fetched:
		return outcomeMiss
	case f.stale:
		return outcomeStale
	}
	return outcomeHit
}
