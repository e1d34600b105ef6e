// Package message knows the bytes of JSON-RPC. It takes a client's request apart, as far as a
// cache has to understand it. It takes an upstream's answers apart, and splices stored results
// into new answers.
//
// It is strict where two parsers could disagree. It rejects a message if a protocol key is
// repeated, is written in another case, or has a NUL behind it. The upstream might read such a
// message differently. The package stores and writes the upstream's own bytes, never a re-encoding
// of them.
//
// The package is pure: it knows nothing of HTTP, of Caddy or of time.
package message
