package toolkit

import (
	"net/http"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/backend"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache/cachetest"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// personalViewer returns the caller of a request, and a server that may show each caller another list.
func personalViewer(t *testing.T) (*viewer, *Server) {
	t.Helper()
	ref := &backend.Ref{Settings: backend.Defaults(), Logger: zap.NewNop()}
	ref.Settings.AdmitAll = true
	if err := ref.Acquire(caddy.NewUsagePool(), "key", "http://upstream.test/mcp"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ended, err := ref.Release()
		if err != nil {
			t.Fatal(err)
		}
		<-ended
	})
	s := &Server{Ref: ref, Credentials: Credentials{From: "Authorization"}}
	return &viewer{
		endpoint: &Endpoint{servers: []*Server{s}}, at: revision.LatestModern, now: time.Now(),
		r: &http.Request{Header: http.Header{"Authorization": {"Bearer a"}}},
	}, s
}

// A handler of the server alone keeps the first page of a caller's list where the whole list would be. That
// page is not taken for the list.
func TestPageIsNoList(t *testing.T) {
	v, s := personalViewer(t)
	e := cachetest.Tools(t, 2)
	e.Partition = v.callerAt(s).Context
	s.Cache.Put(e)
	if got := v.listed(s, revision.Tools); got == nil {
		t.Error("the caller's list is not found")
	}
	page := cachetest.Tools(t, 1)
	page.Partition, page.Body.NextCursor = e.Partition, []byte(`"2"`)
	s.Cache.Put(page)
	if got := v.listed(s, revision.Tools); got != nil {
		t.Error("the first page is taken for the list")
	}
}

// A list that another instance has fetched, or was waited for in vain, counts as the server's answer only while it is
// fresh. One that was fetched since the request arrived counts, too.
func TestAnswersOfOtherInstances(t *testing.T) {
	now := time.Now()
	v := &viewer{arrived: now.Add(-time.Second), now: now}
	last := &cache.Entry{Fetched: now.Add(-time.Hour)}
	for name, c := range map[string]struct {
		e    *cache.Entry
		want bool
	}{
		"nothing":                      {nil, false},
		"fresh":                        {&cache.Entry{Fetched: now.Add(-time.Minute), Lifetime: time.Hour}, true},
		"too old":                      {&cache.Entry{Fetched: now.Add(-time.Minute), Lifetime: time.Minute}, false},
		"over by now":                  {&cache.Entry{Fetched: v.arrived.Add(time.Millisecond), Lifetime: time.Millisecond}, true},
		"never fresh, and as it was":   {last, false},
		"never fresh, and another one": {&cache.Entry{Fetched: now}, true},
		"never fresh, from before":     {&cache.Entry{Fetched: now.Add(-time.Minute)}, true},
	} {
		if got := v.isAnswer(c.e, last); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A server may answer in the moment in which a caller is given a list without its part. Then nobody waits for the
// next answer: clients are told of this one.
func TestPartThatComesInThisMoment(t *testing.T) {
	v, s := personalViewer(t)
	old, now := cachetest.Tools(t, 1), cachetest.Tools(t, 2)
	old.Partition, old.Fetched = v.callerAt(s).Context, now.Fetched.Add(-time.Minute)
	now.Partition = old.Partition
	s.Cache.Put(old)
	v.withhold(s, revision.Tools, old)
	if n := s.returned[revision.Tools].Load(); n != 0 {
		t.Errorf("nothing has come, and clients are told %d times", n)
	}
	s.Cache.Put(now)
	v.withhold(s, revision.Tools, old)
	if n := s.returned[revision.Tools].Load(); n != 1 {
		t.Errorf("the list has come, and clients are told %d times", n)
	}
}
