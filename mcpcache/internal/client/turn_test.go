package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// One long list is fetched at a time: another one waits for its turn, or is given
// up at once if it has not the patience.
func TestLongListsTakeTurns(t *testing.T) {
	padding := strings.Repeat("x", longMessage)
	long := func(name string) string { return `{"tools":[{"name":"` + name + `","x":"` + padding + `"}]}` }
	s := newServer(modern)
	run(t, modern, s, func(w *world) {
		release := make(chan struct{})
		s.On(list, func(w http.ResponseWriter, r *http.Request, c call) error {
			w.Header().Set("Content-Type", jsonType)
			_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"slow","x":"%s`, c.ID, padding+padding)
			select {
			case <-release:
			case <-r.Context().Done():
				return r.Context().Err()
			}
			_, err := io.WriteString(w, `"}]}}`)
			return err
		})
		session := w.open()
		slow, waits := make(chan string, 1), make(chan string, 1)
		read := func(to chan string) {
			names, err := w.names(session)
			to <- fmt.Sprint(names, err)
		}
		go read(slow)
		w.after(time.Second)
		s.On(list, gives(long("waits")))
		if _, err := session.List(w.Context(), ListRequest{Kind: revision.Tools}); !errors.Is(err, errBusy) {
			t.Errorf("got error %v, want %v", err, errBusy)
		}
		go read(waits)
		w.after(time.Second)
		if len(slow)+len(waits) != 0 {
			t.Fatal("a list came before its turn")
		}
		close(release)
		for want, from := range map[string]chan string{"slow<nil>": slow, "waits<nil>": waits} {
			if got := <-from; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
	})
}

func TestTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turn := NewReadSlot()
		first, impatient, patient := claim{slot: turn}, claim{slot: turn}, claim{slot: turn, patient: true}
		for range 2 {
			if first.take(t.Context()) != nil {
				t.Fatal("nobody else has the turn, and yet it cannot be taken")
			}
		}
		if err := impatient.take(t.Context()); !errors.Is(err, errBusy) {
			t.Errorf("got error %v, want %v", err, errBusy)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := patient.take(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got error %v", err)
		}
		taken := make(chan error, 1)
		go func() { taken <- patient.take(t.Context()) }()
		synctest.Wait()
		first.release()
		first.release()
		if err := <-taken; err != nil {
			t.Errorf("got error %v", err)
		}
		patient.release()
		if err := patient.take(t.Context()); err == nil {
			t.Error("a walk that is over has taken the turn")
		}
		if impatient.take(t.Context()) != nil {
			t.Error("the turn was not given back")
		}
		impatient.release()
	})
}
