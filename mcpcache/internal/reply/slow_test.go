package reply

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/header"
)

// unread is the connection of a client that does not read. A deadline ends what is written.
type unread struct {
	*httptest.ResponseRecorder

	ended chan struct{}
	err   error // of the last write
}

func (u *unread) Write([]byte) (int, error) {
	<-u.ended
	u.err = os.ErrDeadlineExceeded
	return 0, u.err
}

func (u *unread) SetWriteDeadline(time.Time) error {
	close(u.ended)
	return nil
}

type nobody struct{}

func (nobody) AppendStatus(dst []byte) []byte { return append(dst, "test"...) }
func (nobody) AllowPage(http.Header)          {}

// TestUnreadAnswersEnd: an answer that is in memory for a client ends if the client does not
// read it, whole or in parts.
func TestUnreadAnswersEnd(t *testing.T) {
	whole, shared := lists(t, fmt.Sprintf(`{"name":"a","x":%q}`, strings.Repeat("x", 64<<10)), `{"name":"b"}`)
	for name, e := range map[string]*cache.Entry{"whole": whole, "in parts": shared} {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, stream %v", name, stream), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := &unread{ResponseRecorder: httptest.NewRecorder(), ended: make(chan struct{})}
					answer := Reply{Asker: nobody{}, ID: []byte("1"), Entry: e, TTL: -1, Stream: stream, Counts: true, Now: time.Now(), Values: new(header.Values)}
					answer.Write(w)
					if w.err == nil {
						t.Error("nothing was written")
					}
				})
			})
		}
	}
}
