package report_test

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/feed"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/report"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/report/reporttest"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// handler is the way to an upstream.
type handler func(w http.ResponseWriter, r *http.Request) error

func (h handler) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	return h(w, r)
}

// TestFailuresInPlainWords: operators are told what went wrong, not what was being done
// when it did; the log has that.
func TestFailuresInPlainWords(t *testing.T) {
	dial := errors.New("dial tcp 127.0.0.1:3001: connect: connection refused")
	rpc := func(status int) handler {
		return func(w http.ResponseWriter, _ *http.Request) error {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_, err := fmt.Fprint(w, `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"out of order"}}`)
			return err
		}
	}
	for want, way := range map[string]handler{
		"connection refused at 127.0.0.1:3001": func(http.ResponseWriter, *http.Request) error { return caddyhttp.Error(502, dial) },
		"no upstreams available": func(http.ResponseWriter, *http.Request) error {
			return caddyhttp.Error(503, errors.New("no upstreams available"))
		},
		"answered 502": func(w http.ResponseWriter, _ *http.Request) error {
			w.WriteHeader(http.StatusBadGateway)
			return nil
		},
		"answered 301 and leads to https://other.example/mcp: name that URL": func(w http.ResponseWriter, _ *http.Request) error {
			w.Header().Set("Location", "https://other.example/mcp?key=s3cret")
			w.WriteHeader(http.StatusMovedPermanently)
			return nil
		},
		"answered 500 with error -32603":        rpc(http.StatusInternalServerError),
		`upstream error -32603: "out of order"`: rpc(http.StatusOK),
		`upstream answered with content type "text/html", not JSON or an event stream`: func(w http.ResponseWriter, _ *http.Request) error {
			w.Header().Set("Content-Type", "text/html")
			_, err := fmt.Fprint(w, "<title>Welcome</title>")
			return err
		},
		"no answer within 30s": func(_ http.ResponseWriter, r *http.Request) error {
			<-r.Context().Done()
			return r.Context().Err()
		},
		"authorizing a request: asking the token endpoint: " + dial.Error(): func(http.ResponseWriter, *http.Request) error {
			return &client.GuardError{Doing: "authorizing a request", Err: fmt.Errorf("asking the token endpoint: %w", dial)}
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			source := reporttest.New(t, "failing")
			source.Through(way)
			source.Feeds().Start(revision.LatestModern)
			time.Sleep(client.RequestTimeout)
			synctest.Wait()
			failure := source.Feeds().All()[0].Status().Failure
			told := report.Describe(source, time.Now()).Feeds[0].Failure
			if failure == nil || told == nil || told.Stage != "connect" || told.Message != want {
				t.Fatalf("told is %+v of %+v, want %q", told, failure, want)
			}
			if failure.Err.Error() == want {
				t.Errorf("the feed's own failure says no more than %q", want)
			}
		})
	}
}

// TestFailedRefreshInPlainWords is the same about a refresh that somebody asked for.
func TestFailedRefreshInPlainWords(t *testing.T) {
	hydrated(t, func(t *testing.T, source *reporttest.Source) {
		source.Through(handler(func(http.ResponseWriter, *http.Request) error {
			return caddyhttp.Error(502, errors.New("dial tcp 127.0.0.1:3001: connect: connection refused"))
		}))
		results := refresh(t, source, revision.Tools)
		if len(results) != 1 || results[0].Error != "connection refused at 127.0.0.1:3001" {
			t.Errorf("refreshing gave %+v", results)
		}
		if s := report.Describe(source, time.Now()); s.Feeds[0].State != feed.Degraded {
			t.Errorf("then the feed is %s", s.Feeds[0].State)
		}
	})
}

// TestTTLIsThatOfAnAnswer: what was announced as changed is fresh for nobody, whatever is
// left of its time.
func TestTTLIsThatOfAnAnswer(t *testing.T) {
	hydrated(t, func(t *testing.T, source *reporttest.Source) {
		tools := func() float64 { return report.Describe(source, time.Now()).Kinds[0].TTL }
		time.Sleep(10 * time.Second)
		if got := tools(); got != 290 {
			t.Errorf("after 10s of 5m, %v seconds are left", got)
		}
		source.Disconnect()
		source.Announce(revision.Tools)
		if got := tools(); got != 0 {
			t.Errorf("when a change was announced, %v seconds are left", got)
		}
		time.Sleep(5 * time.Minute)
		if got := tools(); got != -10 {
			t.Errorf("10s after its time, %v seconds are left", got)
		}
	})
}
