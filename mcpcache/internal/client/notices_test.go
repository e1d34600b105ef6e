package client

import (
	"compress/gzip"
	"compress/zlib"
	"io"
	"net/http"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

const toolsNotice = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`

// packer is a compressor of a stream.
type packer interface {
	io.Writer
	Flush() error
}

var packers = map[string]func(w io.Writer) packer{
	"gzip":    func(w io.Writer) packer { return gzip.NewWriter(w) },
	"deflate": func(w io.Writer) packer { return zlib.NewWriter(w) },
	"zstd": func(w io.Writer) packer {
		p, _ := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1)) // valid options
		return p
	},
}

// A server may compress the stream of notices though nobody asked for that.
func TestCompressedStreamIsHeard(t *testing.T) {
	for era, r := range both {
		for coding, pack := range packers {
			t.Run(coding+" "+era, func(t *testing.T) {
				s := newServer(r)
				var notices chan string
				s.On(listening[r], func(w http.ResponseWriter, req *http.Request, _ call) error {
					w.Header().Set("Content-Type", "text/event-stream")
					w.Header().Set("Content-Encoding", coding)
					w.WriteHeader(http.StatusOK)
					p := pack(w)
					next := `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged"}`
					for {
						if _, err := io.WriteString(p, "data: "+next+"\n\n"); err != nil {
							return err
						}
						if err := p.Flush(); err != nil {
							return err
						}
						select {
						case next = <-notices:
						case <-req.Context().Done():
							return req.Context().Err()
						}
					}
				})
				run(t, r, s, func(w *world) {
					notices = make(chan string)
					opened, stop := w.listen(w.open())
					defer stop()
					if !*opened {
						t.Fatal("the stream does not count as open")
					}
					for n := range 2 {
						notices <- toolsNotice
						w.after(0)
						w.wantNotices(n + 1)
					}
				})
			})
		}
	}
}

// wantNotices checks how often a change of the tools was announced.
func (w *world) wantNotices(want int) {
	w.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	got := 0
	for _, method := range w.notices {
		if method == "notifications/tools/list_changed" {
			got++
		}
	}
	if got != want {
		w.Fatalf("heard %v, want %d notices", w.notices, want)
	}
}

// A server's acknowledgement may be spelled as oddly as its notices.
func TestOddAcknowledgement(t *testing.T) {
	for name, message := range map[string]string{
		"params null": `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":null}`,
		"an array":    `[{"method":"notifications\/subscriptions\/acknowledged"}]`,
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(modern)
			s.On("subscriptions/listen", func(w http.ResponseWriter, r *http.Request, _ call) error {
				return s.Stream(w, r, message)
			})
			run(t, modern, s, func(w *world) {
				opened, stop := w.listen(w.open())
				defer stop()
				if !*opened {
					t.Fatal("the stream does not count as open")
				}
				s.Send(toolsNotice)
				w.after(0)
				w.wantNotices(1)
			})
		})
	}
}

// A list that speaks of notices is none.
func TestMentionInAListIsNotHeard(t *testing.T) {
	for era, r := range both {
		t.Run(era, func(t *testing.T) {
			s := newServer(r)
			s.Set(revision.Tools, "notifications/tools/list_changed")
			run(t, r, s, func(w *world) {
				w.wantNames(w.open(), "notifications/tools/list_changed")
				w.wantNotices(0)
			})
		})
	}
}

// What a server acknowledges less than it was asked for is told apart.
func TestAcknowledgesLess(t *testing.T) {
	for params, less := range map[string]bool{
		``:             false, // it does not say
		`,"params":{}`: false,
		`,"params":{"notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true}}`:  false,
		`,"params":{"notifications":{"toolsListChanged":true,"promptsListChanged":true}}`:                              true,
		`,"params":{"notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":false}}`: true,
		`,"params":{"notifications":{}}`: true,
	} {
		t.Run(params, func(t *testing.T) {
			s := newServer(modern)
			s.On("subscriptions/listen", func(w http.ResponseWriter, r *http.Request, _ call) error {
				return s.Stream(w, r, `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged"`+params+`}`)
			})
			run(t, modern, s, func(w *world) {
				opened, stop := w.listen(w.open())
				defer stop()
				if !*opened || (w.partly > 0) != less {
					t.Errorf("opened: %v, partly: %d", *opened, w.partly)
				}
			})
		})
	}
}
