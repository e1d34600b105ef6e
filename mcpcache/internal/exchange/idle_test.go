package exchange

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// idleServer ends a session in which it was asked nothing for that time.
type idleServer struct {
	after time.Duration
	last  map[string]time.Time // by session
	asked int
}

func (s *idleServer) ServeHTTP(w http.ResponseWriter, r *http.Request) error {
	s.asked++
	session, now := r.Header.Get("Mcp-Session-Id"), time.Now()
	if last, known := s.last[session]; !known || now.Sub(last) > s.after {
		delete(s.last, session)
		w.WriteHeader(http.StatusNotFound)
		return nil
	}
	s.last[session] = now
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	if strings.Contains(string(body), "tools/call") {
		return resultOf(`"content":[]`)(w, r)
	}
	return listing("a")(w, r)
}

// TestSessionsThatOnlyHit has a server end sessions that look idle, since their lists are hits:
// the first one is lost, and others of later are not, nor are any hits (ContextForge#2033,
// hermes#49221).
func TestSessionsThatOnlyHit(t *testing.T) {
	const legacy = revision.V20251125
	synctest.Test(t, func(t *testing.T) {
		f := newFace(t, config{Gate: duration(0)})
		f.pinned(t, legacy, cache.Public, time.Hour, 0, "a")
		s := &idleServer{after: 4 * time.Second, last: make(map[string]time.Time)}
		open := func(session string) {
			f.session(t, session, legacy)
			f.upstreamIs(s.ServeHTTP)
			s.last[session] = time.Now()
		}
		// lists has a session list each 300 ms for so long.
		lists := func(session string, d time.Duration) {
			for range d / (300 * time.Millisecond) {
				time.Sleep(300 * time.Millisecond)
				w := f.serve(t, legacyRequest(legacy, session, "tools/list"))
				if hit := strings.Contains(w.Header().Get("Cache-Status"), "; hit"); w.Code != http.StatusOK || !hit {
					t.Errorf("a list of %s is %d, %q", session, w.Code, w.Header().Get("Cache-Status"))
				}
				synctest.Wait()
			}
		}
		call := func(session string) (status int) {
			return f.serve(t, legacyRequest(legacy, session, "tools/call")).Code
		}
		open("first")
		lists("first", 6*time.Second)
		if s.asked != 0 {
			t.Fatalf("the server was asked %d times, and nothing is known of it", s.asked)
		}
		if status := call("first"); status != http.StatusNotFound {
			t.Fatalf("a call in a lost session gave %d", status)
		}
		// Its client opens another one, and names the lost one yet: that is no answer in it.
		f.upstreamIs(resultOf(`"protocolVersion":"2025-11-25","capabilities":{}`))
		again := initializing()
		again.Header.Set("Mcp-Session-Id", "first")
		f.serve(t, again)
		s.asked = 0
		open("second")
		lists("second", time.Minute)
		if status := call("second"); status != http.StatusOK {
			t.Errorf("a call after a minute gave %d", status)
		}
		if s.asked > 45 {
			t.Errorf("200 hits have cost %d requests", s.asked)
		}
		// It is configured anew: what was seen last counts.
		s.after = time.Hour
		time.Sleep(time.Minute)
		if status := call("second"); status != http.StatusOK {
			t.Errorf("a call after a minute without any gave %d", status)
		}
		s.asked = 0
		lists("second", time.Minute)
		if s.asked > 0 {
			t.Errorf("hits have cost %d requests of a server that ends no session", s.asked)
		}
	})
}

// TestSeldomListsKeepASession has a client list at whatever pace: where the server would not have
// ended its session if it had been sent each list, it does not end it either.
func TestSeldomListsKeepASession(t *testing.T) {
	const legacy = revision.V20251125
	for _, seconds := range []float64{0.2, 0.7, 1, 1.4, 1.7, 2, 2.5, 2.9} {
		pace := time.Duration(seconds * float64(time.Second))
		t.Run(pace.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFace(t, config{Gate: duration(0)})
				f.pinned(t, legacy, cache.Public, time.Hour, 0, "a")
				s := &idleServer{after: 3 * time.Second, last: make(map[string]time.Time)}
				var lost []int
				for n := range 5 {
					session := fmt.Sprint(n)
					f.session(t, session, legacy)
					f.upstreamIs(s.ServeHTTP)
					s.last[session] = time.Now()
					for range 30 * time.Second / pace {
						time.Sleep(pace)
						f.serve(t, legacyRequest(legacy, session, "tools/list"))
						synctest.Wait()
					}
					if f.serve(t, legacyRequest(legacy, session, "tools/call")).Code == http.StatusNotFound {
						lost = append(lost, n)
					}
				}
				// The first is lost after half a minute. Each says that the time is half as long at most.
				if slices.ContainsFunc(lost, func(n int) bool { return n > 2 }) {
					t.Errorf("sessions %v were lost", lost)
				}
			})
		})
	}
}

// TestKeptAliveOnAnOpenStream has the server leave the stream open on which it answers: what the
// client has long been given is not waited for.
func TestKeptAliveOnAnOpenStream(t *testing.T) {
	const legacy = revision.V20251125
	synctest.Test(t, func(t *testing.T) {
		f := newFace(t, config{Gate: duration(0)})
		f.pinned(t, legacy, cache.Public, time.Hour, 0, "a")
		f.session(t, "lost", legacy)
		f.session(t, "s", legacy)
		time.Sleep(8 * time.Second)
		f.upstreamIs(failsWith(http.StatusNotFound))
		f.serve(t, legacyRequest(legacy, "lost", "tools/call"))
		ended := make(chan time.Duration, 1)
		f.upstreamIs(func(w http.ResponseWriter, r *http.Request) error {
			began := time.Now()
			defer func() { ended <- time.Since(began) }()
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":%s}\n\n", toolsOf("a"))
			<-r.Context().Done()
			return r.Context().Err()
		})
		f.serve(t, legacyRequest(legacy, "s", "tools/list"))
		if lasted := <-ended; lasted != lingerAnswered {
			t.Errorf("the stream was left after %v", lasted)
		}
	})
}

// TestSessionsLostForOtherReasons has sessions lost, and not for want of requests: what lasts is
// asked for no more often.
func TestSessionsLostForOtherReasons(t *testing.T) {
	const legacy = revision.V20251125
	for name, c := range map[string]struct {
		idle time.Duration // before the request
		lost func(f *face)
	}{
		"at once":       {time.Second / 2, func(*face) {}},
		"with the feed": {time.Minute, func(f *face) { f.backend.Admission.LoseSessions() }},
		"no such method": {time.Minute, func(f *face) {
			f.upstreamIs(func(w http.ResponseWriter, r *http.Request) error {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusNotFound)
				_, err := io.WriteString(w, `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no such method"}}`)
				return err
			})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFace(t, config{Gate: duration(0)})
				f.pinned(t, legacy, cache.Public, time.Hour, 0, "a")
				for _, session := range []string{"one", "other"} {
					f.session(t, session, legacy)
				}
				f.upstreamIs(failsWith(http.StatusNotFound))
				time.Sleep(c.idle)
				c.lost(f)
				f.serve(t, legacyRequest(legacy, "one", "prompts/list"))
				f.session(t, "other", legacy)
				f.asked()
				for i := range 100 {
					time.Sleep(time.Second)
					if w := f.serve(t, legacyRequest(legacy, "other", "tools/list")); w.Code != http.StatusOK {
						t.Fatalf("list %d: %d", i, w.Code)
					}
					synctest.Wait()
				}
				if n := f.asked(); n > 0 {
					t.Errorf("hits have cost %d requests", n)
				}
			})
		})
	}
}
