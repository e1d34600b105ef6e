package splice

import (
	"bytes"
	"io"
)

// MaxOverhead is how many bytes Splice appends at most besides the prefix.
const MaxOverhead = gzipHeaderLen + storedHeaderLen + gzipTrailerLen

// Parts is one encoded answer, in the order in which it is written.
type Parts struct {
	// Head is the buffer given to Splice with the beginning of the answer
	// appended. Once all parts are written, Head[:0] can be used again.
	Head []byte
	// Tail is shared by all answers and must not be changed.
	Tail []byte
	// Foot is the end of a gzip member, which depends on the prefix; zstd has
	// none. It shares its array with Head: nothing must be appended to Head
	// before it is written.
	Foot []byte
}

// WriteTo writes the answer to w, with one call for each part that is there.
func (p Parts) WriteTo(w io.Writer) (int64, error) {
	var total int64
	for _, part := range [...][]byte{p.Head, p.Tail, p.Foot} {
		if len(part) == 0 {
			continue
		}
		n, err := w.Write(part)
		total += int64(n)
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

// reader returns a reader of the answer.
func (p Parts) reader() io.Reader {
	return io.MultiReader(bytes.NewReader(p.Head), bytes.NewReader(p.Tail), bytes.NewReader(p.Foot))
}
