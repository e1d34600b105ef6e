// Package splice answers with bytes that were compressed once, although the
// beginning of every answer is different.
//
// A body is compressed in the background by a [Codec]. Each answer then puts
// its own short prefix in front of it, uncompressed, inside the same stream:
//
//	gzip  header | stored block: prefix | deflate blocks: body | CRC-32, size
//	zstd  header | raw block: prefix    | blocks: body
//
// Both are what the formats call one stream: one gzip member (RFC 1952) and
// one Zstandard frame (RFC 8878). Concatenated members or frames would be
// simpler and just as legal, but there are clients that stop after the first.
//
// What follows the body in an answer, such as the empty line that ends an
// event of a stream, has to be part of the body.
package splice
