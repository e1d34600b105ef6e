// Package revision knows the revisions of the Model Context Protocol that have a Streamable HTTP
// transport. It knows which era a revision belongs to, which methods list at that revision, and
// what a change notice is called.
//
// It is a set of tables. It knows nothing of HTTP servers, of Caddy or of time.
package revision

// Era is a family of revisions that speak the same transport.
type Era uint8

const (
	// Legacy revisions open a session with initialize.
	Legacy Era = iota
	// Modern revisions are stateless: every request names its revision in
	// _meta and in its headers.
	Modern
)

// String returns "legacy" or "modern".
func (e Era) String() string {
	if e == Modern {
		return "modern"
	}
	return "legacy"
}

// NamesOf returns the names of eras, or nil if there are none.
func NamesOf(eras []Era) (names []string) {
	for _, era := range eras {
		names = append(names, era.String())
	}
	return names
}

// EraNames returns the names of the eras, in the order in which a feed tries them.
func EraNames() []string { return []string{Legacy.String(), Modern.String()} }

// ParseEra returns the era with that name.
func ParseEra(name string) (Era, bool) {
	switch name {
	case Legacy.String():
		return Legacy, true
	case Modern.String():
		return Modern, true
	}
	return 0, false
}

// Revision is one protocol version. The zero value is [Unknown].
type Revision uint8

const (
	// Unknown stands for every version that is not in this package's tables.
	// Nothing of it is ever answered from the cache.
	Unknown Revision = iota
	V20250326
	V20250618
	V20251125
	V20260728

	// Count is one more than the last revision: the length of an array that
	// is indexed by revision.
	Count = int(V20260728) + 1
)

const (
	// LatestLegacy is what a feed asks a server for that has sessions.
	LatestLegacy = V20251125
	// LatestModern is what a feed asks a stateless server for.
	LatestModern = V20260728
)

var names = [Count]string{
	V20250326: "2025-03-26",
	V20250618: "2025-06-18",
	V20251125: "2025-11-25",
	V20260728: "2026-07-28",
}

// Parse returns the revision with that version string, or Unknown.
func Parse(version string) Revision {
	for r := V20250326; int(r) < Count; r++ {
		if names[r] == version {
			return r
		}
	}
	return Unknown
}

// String returns the version string; of Unknown, "unknown".
func (r Revision) String() string {
	if r == Unknown || int(r) >= Count {
		return "unknown"
	}
	return names[r]
}

// Era returns the era that r belongs to; Unknown counts as legacy.
func (r Revision) Era() Era {
	if r >= V20260728 {
		return Modern
	}
	return Legacy
}

// All returns the known revisions, oldest first.
func All() []Revision {
	return []Revision{V20250326, V20250618, V20251125, V20260728}
}
