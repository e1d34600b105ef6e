package cache

// Partition says who may be given an entry: everybody, or the callers of one
// authorization context. The zero value is the context of callers who present
// no credential at all.
type Partition struct {
	scope partitionScope
	hash  [16]byte
}

type partitionScope uint8

const (
	scopeAnonymous partitionScope = iota
	scopeContext
	scopePublic
	scopeFeed
)

var (
	// Anonymous is the authorization context of callers without credentials
	// who reach the server as the feed does.
	Anonymous = Partition{}
	// Public is the partition of entries that anybody may be given.
	Public = Partition{scope: scopePublic}
	// FeedOnly is the partition of entries that the upstream gave to a guard's credential.
	// Clients do not present that credential, so the cache gives these entries to no client.
	// A server of a toolkit with "authorization guard" is the exception: there, the request
	// of each caller carries the credential.
	FeedOnly = Partition{scope: scopeFeed}
)

// ContextOf returns the partition of one authorization context. The hash
// stands for every credential of its callers; it must be keyed, so that it
// reveals none of them.
func ContextOf(hash [16]byte) Partition {
	return Partition{scope: scopeContext, hash: hash}
}

// AnonymousAt returns the partition of callers without credentials who reach
// the server by another name than the feed, so that it may show them other
// lists. The hash stands for that name.
func AnonymousAt(hash [16]byte) Partition {
	return Partition{scope: scopeAnonymous, hash: hash}
}

// Admits reports whether a caller in the authorization context caller may be
// given an entry of partition p.
func (p Partition) Admits(caller Partition) bool {
	return p == Public || p == caller
}

// IsAnonymous reports whether p is a context of callers without credentials,
// whom nothing tells apart: [Anonymous], or one of [AnonymousAt].
func (p Partition) IsAnonymous() bool { return p.scope == scopeAnonymous }

func (p Partition) append(dst []byte) []byte {
	return append(append(dst, byte(p.scope)), p.hash[:]...)
}

// Key returns bytes that no other partition has, always as many.
func (p Partition) Key() []byte { return p.append(nil) }
