package splice

// Encoded is one body, compressed once, to which any prefix can be spliced.
// It is immutable and safe for concurrent use.
type Encoded struct {
	gzip gzipBody
	zstd zstdBody
}

// Has reports whether the body is there in encoding enc. It is not when that
// would have made it larger.
func (e *Encoded) Has(enc Encoding) bool {
	switch enc {
	case Gzip:
		return e.gzip.deflate != nil
	case Zstd:
		return e.zstd.blocks != nil
	}
	return false
}

// Size returns how many bytes of memory the encodings keep.
func (e *Encoded) Size() int { return cap(e.gzip.deflate) + cap(e.zstd.blocks) }

// Splice returns the answer that decodes to prefix and body. The parts that
// are its own are appended to dst; nothing is allocated if dst has room for
// the prefix and MaxOverhead bytes more. The prefix is copied; it must not lie
// in the free room of dst.
//
// A zstd answer has a head and a tail. A gzip answer has a foot as well, unless
// it is below some 64 KB and dst has room for all of it: then it is all head,
// because copying that much costs less than a third write.
//
// It returns false if the body is not there in that encoding or the prefix is
// longer than maxPrefix. dst is then unchanged.
func (e *Encoded) Splice(dst []byte, enc Encoding, prefix []byte) (Parts, bool) {
	if !e.Has(enc) || len(prefix) > maxPrefix {
		return Parts{}, false
	}
	if enc == Gzip {
		return e.gzip.splice(dst, prefix), true
	}
	return e.zstd.splice(dst, prefix), true
}
