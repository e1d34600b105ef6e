package cache

// Partition says who may be given an entry: everybody who asks the same, or the callers of
// one authorization context. The zero value is the context of callers who present no
// credential at all, and ask as the feed does.
type Partition struct {
	scope partitionScope
	hash  [16]byte
	asked Asked
}

type partitionScope uint8

const (
	scopeAnonymous partitionScope = iota
	scopeContext
	scopePublic
	scopeFeed
)

// Asked stands for what a request asks a server for besides its message: its query, its
// Host and the like. It is a keyed hash, and zero for requests like the feed's. Credentials
// are not part of it.
type Asked [16]byte

var (
	// Anonymous is the authorization context of callers without credentials
	// who reach the server as the feed does.
	Anonymous = Partition{}
	// Public is the partition of entries that anybody may be given who asks as the feed
	// does. [Partition.Everybody] has those of other requests.
	Public = Partition{scope: scopePublic}
	// FeedOnly is the partition of entries that the upstream gave to a guard's credential.
	// Clients do not present that credential, so the cache gives these entries to no client.
	// A server of a toolkit with "authorization guard" is the exception: there, the request
	// of each caller carries the credential.
	FeedOnly = Partition{scope: scopeFeed}
)

// ContextOf returns the partition of one authorization context. The hash
// stands for every credential of its callers and for how they ask; it must be keyed, so
// that it reveals none of them.
func ContextOf(hash [16]byte, asked Asked) Partition {
	return Partition{scope: scopeContext, hash: hash, asked: asked}
}

// AnonymousAt returns the partition of callers without credentials who reach
// the server by another name than the feed, so that it may show them other
// lists. asked stands for that name.
func AnonymousAt(asked Asked) Partition {
	return Partition{scope: scopeAnonymous, asked: asked}
}

// Everybody returns the partition of entries that every caller may be given who asks as the
// callers of p do.
func (p Partition) Everybody() Partition { return EverybodyWho(p.asked) }

// EverybodyWho returns the partition of entries that every caller may be given who asks so.
func EverybodyWho(asked Asked) Partition { return Partition{scope: scopePublic, asked: asked} }

// IsPublic reports whether p is the partition of everybody who asks the same.
func (p Partition) IsPublic() bool { return p.scope == scopePublic }

// Asked returns how the callers of p ask.
func (p Partition) Asked() Asked { return p.asked }

// AsksLikeFeed reports whether the callers of p ask the server for the same as the feed.
func (p Partition) AsksLikeFeed() bool { return p.asked == Asked{} }

// WithoutCredentials returns the context of callers without credentials whose requests ask for that. Requests that
// differ from the feed's by their Host alone have [AnonymousAt] instead.
func WithoutCredentials(asked Asked) Partition {
	if asked == (Asked{}) {
		return Anonymous
	}
	return ContextOf([16]byte(asked), asked)
}

// HasNoCredentials reports whether p is a context of callers whom nothing tells apart but what
// they ask for.
func (p Partition) HasNoCredentials() bool {
	return p.IsAnonymous() || p.scope == scopeContext && p.hash == [16]byte(p.asked)
}

// Admits reports whether a caller in the authorization context caller may be
// given an entry of partition p.
func (p Partition) Admits(caller Partition) bool {
	return p == caller || p == caller.Everybody()
}

// IsAnonymous reports whether p is a context of callers without credentials,
// whom nothing tells apart: [Anonymous], or one of [AnonymousAt].
func (p Partition) IsAnonymous() bool { return p.scope == scopeAnonymous }

func (p Partition) append(dst []byte) []byte {
	dst = append(append(dst, byte(p.scope)), p.hash[:]...)
	return append(dst, p.asked[:]...)
}

// Key returns bytes that no other partition has, always as many.
func (p Partition) Key() []byte { return p.append(nil) }
