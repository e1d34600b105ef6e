package feed

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
				s.on(listening[r], func(w http.ResponseWriter, req *http.Request, _ call) error {
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
				run(t, s, func(w *world) {
					notices = make(chan string)
					f := w.start(r)
					if !f.Status().Listening {
						t.Fatal("the feed does not listen")
					}
					w.after(w.policy.Refresh)
					for _, name := range []string{"new", "newer"} {
						s.set(revision.Tools, name)
						notices <- toolsNotice
						w.after(w.policy.Refresh + gather)
						w.wantItems(r, revision.Tools, name)
					}
				})
			})
		}
	}
}

// A stream that cannot be read is no stream: the TTL rules, and the feed does
// not say that it listens.
func TestStreamInAnUnknownCoding(t *testing.T) {
	for era, r := range both {
		t.Run(era, func(t *testing.T) {
			s := newServer(r)
			s.on(listening[r], func(w http.ResponseWriter, _ *http.Request, _ call) error {
				w.Header().Set("Content-Encoding", "br")
				return reply(w, http.StatusOK, "text/event-stream", "\x0b\x00\x80")
			})
			run(t, s, func(w *world) {
				f := w.start(r)
				w.after(acknowledgeTimeout)
				if f.Status().Listening {
					t.Error("the feed says that it listens")
				}
				w.wantState(f, Ready)
				s.set(revision.Tools, "new")
				w.after(w.policy.TTL)
				w.wantItems(r, revision.Tools, "new")
			})
		})
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
			s.on("subscriptions/listen", func(w http.ResponseWriter, r *http.Request, _ call) error { return s.stream(w, r, message) })
			run(t, s, func(w *world) {
				f := w.start(modern)
				if !f.Status().Listening {
					t.Fatal("the feed does not listen")
				}
				w.after(w.policy.Refresh)
				s.set(revision.Tools, "new")
				before := s.count(list)
				s.send(toolsNotice)
				w.after(gather)
				w.wantItems(modern, revision.Tools, "new")
				if n := s.count(list) - before; n != 1 {
					t.Errorf("one notice cost %d lists", n)
				}
			})
		})
	}
}

// A list that speaks of notices is kept like any other, and heard but once.
func TestMentionInAListIsNoNotice(t *testing.T) {
	for era, r := range both {
		t.Run(era, func(t *testing.T) {
			s := newServer(r)
			s.set(revision.Tools, "notifications/tools/list_changed")
			run(t, s, func(w *world) {
				w.start(r)
				w.after(w.policy.TTL / 2)
				w.wantItems(r, revision.Tools, "notifications/tools/list_changed")
				w.wantCalls(list, 1)
			})
		})
	}
}
