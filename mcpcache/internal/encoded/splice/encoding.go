package splice

// Encoding is a content coding. Its value is the name that Accept-Encoding
// and Content-Encoding use for it (RFC 9110, 8.4.1).
type Encoding string

const (
	Gzip Encoding = "gzip"
	Zstd Encoding = "zstd"
)

// maxPrefix is the length in bytes of the longest prefix that can be spliced
// to a body. It is what fits one stored block of deflate (RFC 1951, 3.2.4); a
// raw block of zstd holds more, 128 KiB (RFC 8878, 3.1.1.2.4).
const maxPrefix = 1<<16 - 1
