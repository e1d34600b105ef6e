// Package message knows the bytes of JSON-RPC: it takes a client's request
// apart as far as a cache has to understand it, takes an upstream's answers
// apart, and splices stored results into new answers.
//
// It is strict where two parsers could disagree. A message with a protocol key
// that is repeated, or written in another case, is refused rather than read one
// way: the upstream might read it the other way. What it stores and writes are
// the upstream's own bytes, never a re-encoding of them.
//
// The package is pure: it knows nothing of HTTP, of Caddy or of time.
package message
