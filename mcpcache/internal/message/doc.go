// Package message knows the bytes of JSON-RPC: it takes a client's request
// apart as far as a cache has to understand it, takes an upstream's answers
// apart, and splices stored results into new answers.
//
// It is strict where two parsers could disagree. It refuses a message in which a
// protocol key is repeated, written in another case, or has a NUL behind it: the
// upstream might read that message otherwise. What it stores and writes are
// the upstream's own bytes, never a re-encoding of them.
//
// The package is pure: it knows nothing of HTTP, of Caddy or of time.
package message
