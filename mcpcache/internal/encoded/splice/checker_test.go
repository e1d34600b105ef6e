package splice

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestCheckerFindsFaults(t *testing.T) {
	check, err := newChecker()
	if err != nil {
		t.Fatal(err)
	}
	body := listBody(50)
	good := mustEncode(t, body)
	flip := func(b []byte) []byte {
		b = bytes.Clone(b)
		b[len(b)/2] ^= 1
		return b
	}
	for _, test := range []struct {
		name  string
		fault func(e *Encoded)
		body  []byte
		form  string
	}{
		{"deflate stream", func(e *Encoded) { e.gzip.deflate = flip(e.gzip.deflate) }, body, "gzip"},
		{"deflate stream cut", func(e *Encoded) { e.gzip.deflate = e.gzip.deflate[:100] }, body, "gzip"},
		{"size", func(e *Encoded) { e.gzip.size++ }, body, "gzip"},
		{"checksum", func(e *Encoded) { e.gzip.sum++ }, body, "gzip"},
		{"shift", func(e *Encoded) { e.gzip.shift++ }, body, "gzip"},
		{"blocks", func(e *Encoded) { e.zstd.blocks = flip(e.zstd.blocks) }, body, "zstd"},
		{"blocks cut", func(e *Encoded) { e.zstd.blocks = e.zstd.blocks[:100] }, body, "zstd"},
		{"window", func(e *Encoded) { e.zstd.window = windowDescriptor(2 * maxWindow) }, body, "zstd"},
		{"other gzip body", func(e *Encoded) { e.zstd = zstdBody{} }, flip(body), "gzip"},
		{"other zstd body", func(e *Encoded) { e.gzip = gzipBody{} }, flip(body), "zstd"},
		{"longer gzip body", func(e *Encoded) { e.zstd = zstdBody{} }, body[:len(body)-1], "gzip"},
		{"longer zstd body", func(e *Encoded) { e.gzip = gzipBody{} }, body[:len(body)-1], "zstd"},
		{"shorter zstd body", func(e *Encoded) { e.gzip = gzipBody{} }, append(bytes.Clone(body), '}'), "zstd"},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := *good
			test.fault(&e)
			if err := check.all(&e, test.body); err == nil || !strings.HasPrefix(err.Error(), "checking "+test.form) {
				t.Errorf("error %v", err)
			}
			if check.source.Reader != nil {
				t.Error("the answer is kept")
			}
			// The checker is as good as new.
			if err := check.all(good, body); err != nil {
				t.Errorf("after a fault: %v", err)
			}
		})
	}
}

func TestCompare(t *testing.T) {
	check, err := newChecker()
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	for _, test := range []struct {
		name string
		r    io.Reader
		err  error
	}{
		{"equal", strings.NewReader("ab"), nil},
		{"different", strings.NewReader("ac"), errDiffers},
		{"shorter", strings.NewReader("a"), io.EOF},
		{"longer", strings.NewReader("abc"), errLonger},
		{"error at the end", io.MultiReader(strings.NewReader("ab"), failing{broken}), broken},
	} {
		if err := check.compare(test.r, []byte("a"), nil, []byte("b")); !errors.Is(err, test.err) {
			t.Errorf("%s: error %v, want %v", test.name, err, test.err)
		}
	}
}

// failing is a reader that fails.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
