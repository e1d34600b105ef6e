package client

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// encoder is what all encoders are.
type encoder interface {
	io.WriteCloser
	Flush() error
}

// encoders are the codings that a server may choose.
var encoders = map[string]func(w io.Writer) encoder{
	"gzip":    func(w io.Writer) encoder { return gzip.NewWriter(w) },
	"X-GZIP":  func(w io.Writer) encoder { return gzip.NewWriter(w) },
	"Deflate": func(w io.Writer) encoder { return zlib.NewWriter(w) },
	"deflate": func(w io.Writer) encoder {
		e, _ := flate.NewWriter(w, flate.BestSpeed) // a valid level
		return e
	},
	"zstd": func(w io.Writer) encoder {
		e, _ := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1)) // valid options
		return e
	},
}

// TestDecode reads a compressed stream: each event arrives before the next is
// written, and the header before any.
func TestDecode(t *testing.T) {
	for coding, newEncoder := range encoders {
		t.Run(coding, func(t *testing.T) {
			noLeaks(t)
			next := make(chan string)
			res := post(t.Context(), t, limited(1000, func(w http.ResponseWriter, _ *http.Request) error {
				w.Header().Set("Content-Type", "text/event-stream")
				w.Header().Set("Content-Encoding", coding)
				w.WriteHeader(http.StatusOK)
				e := newEncoder(w)
				for event := range next {
					if _, err := io.WriteString(e, event); err != nil {
						return err
					}
					if err := e.Flush(); err != nil {
						return err
					}
				}
				return e.Close()
			}))
			if got := res.Header["Content-Encoding"]; got != nil {
				t.Errorf("the coding is still said to be %q", got)
			}
			for _, event := range []string{"data: one\n\n", "data: two\n\n", strings.Repeat(": alive\n\n", 500)} {
				next <- event
				got := make([]byte, len(event))
				if _, err := io.ReadFull(res.Body, got); err != nil || string(got) != event {
					t.Fatalf("got %q, %v", got, err)
				}
			}
			close(next)
			if rest, err := readAll(res); err != nil || rest != "" {
				t.Errorf("got %q, %v in the end", rest, err)
			}
		})
	}
}

// TestDecodeBounds unpacks more than a message may have.
func TestDecodeBounds(t *testing.T) {
	const limit = 64 << 10
	for coding, newEncoder := range encoders {
		for size, fails := range map[int]bool{limit: false, limit + 1: true, 100 * limit: true} {
			var packed bytes.Buffer
			e := newEncoder(&packed)
			if _, err := e.Write(bytes.Repeat([]byte(" "), size)); err != nil || e.Close() != nil {
				t.Fatal(err)
			}
			res := post(t.Context(), t, limited(limit, func(w http.ResponseWriter, _ *http.Request) error {
				w.Header().Set("Content-Type", "application/json")
				w.Header().Set("Content-Encoding", coding)
				_, err := w.Write(packed.Bytes())
				return err
			}))
			got, err := readAll(res)
			if errors.Is(err, ErrTooLarge) != fails || !fails && len(got) != size {
				t.Errorf("%s of %d bytes: got %d, %v", coding, size, len(got), err)
			}
		}
	}
}

func TestWhatCannotBeDecoded(t *testing.T) {
	for coding, early := range map[string]bool{"br": true, "gzip, gzip": true, "aes128gcm": true, "gzip": false, "zstd": false} {
		noLeaks(t)
		ctx, outcome := withOutcome(t.Context())
		res, err := limited(1000, func(w http.ResponseWriter, _ *http.Request) error {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Encoding", coding)
			_, err := io.WriteString(w, strings.Repeat("no coding", 10))
			return err
		}).RoundTrip(newRequest(ctx, t, http.MethodPost, endpoint, "{}"))
		if (err != nil) != early {
			t.Errorf("%s: got error %v", coding, err)
		}
		if err == nil {
			if _, err = readAll(res); outcome.Err() == nil {
				t.Errorf("%s: the outcome is no error", coding)
			}
		}
		if err == nil || !strings.Contains(err.Error(), coding) {
			t.Errorf("%s: got error %v", coding, err)
		}
	}
}
