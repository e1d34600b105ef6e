// Package splice answers with bytes that were compressed once, although the beginning of every
// answer is different.
//
// A [Codec] compresses a body in the background. Each answer then puts its own short prefix in
// front of the body, uncompressed, inside the same stream:
//
//	gzip  header | stored block: prefix | deflate blocks: body | CRC-32, size
//	zstd  header | raw block: prefix    | blocks: body
//
// Both formats call that one stream: one gzip member (RFC 1952) or one Zstandard frame (RFC 8878).
// Concatenated members or frames would be simpler and just as legal. But some clients stop after
// the first one.
//
// Bytes that follow the body in an answer have to be part of the body. An example is the empty
// line that ends an event of a stream.
package splice
