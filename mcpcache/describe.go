package mcpcache

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/feed"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// handlerStatus is what the admin API tells of a handler.
type handlerStatus struct {
	Name     string `json:"name"`
	Upstream string `json:"upstream"`
	// Ready is false until there is a copy of every list.
	Ready bool         `json:"ready"`
	Feeds []feedStatus `json:"feeds"`
	Kinds []kindStatus `json:"kinds"`
}

type feedStatus struct {
	Era       string     `json:"era"`
	Revision  string     `json:"revision"`
	State     feed.State `json:"state"`
	Since     time.Time  `json:"since"`
	Listening bool       `json:"listening"`
	// Unanswered is how many requests of the server got no answer.
	Unanswered int64 `json:"unanswered"`
	// Silent are the kinds whose lists have changed without a notice.
	Silent  []string       `json:"changes_without_notice,omitempty"`
	Failure *failureStatus `json:"last_failure,omitempty"`
	Next    *time.Time     `json:"next_refresh,omitempty"`
}

type failureStatus struct {
	Stage   string    `json:"stage"`
	Message string    `json:"message"`
	At      time.Time `json:"at"`
}

type kindStatus struct {
	Kind     string  `json:"kind"`
	Revision string  `json:"revision"`
	Items    int     `json:"items"`
	Bytes    int     `json:"bytes"`
	Digest   string  `json:"digest"`
	Age      float64 `json:"age_seconds"`
	TTL      float64 `json:"ttl_seconds"`
	// Uncacheable is why the list is never answered from the cache while the
	// upstream delivers.
	Uncacheable string `json:"uncacheable,omitempty"`
	Hits        uint64 `json:"hits"`
}

// describe tells how the handler is.
func (h *Handler) describe(now time.Time) handlerStatus {
	status := handlerStatus{
		Name: h.settings.name, Upstream: h.endpointURL,
		Feeds: []feedStatus{}, Kinds: []kindStatus{},
	}
	for _, f := range h.shared.feeds.All() {
		s := f.Status()
		status.Feeds = append(status.Feeds, describeFeed(s))
		status.Ready = status.Ready || s.Hydrated
		for _, k := range revision.Kinds() {
			if e := h.shared.cache.Pinned(s.Revision, k); e != nil {
				status.Kinds = append(status.Kinds, kindStatus{
					Kind: k.String(), Revision: e.Revision.String(),
					Items: e.Body.Items, Bytes: len(e.Body.Bytes), Digest: hex.EncodeToString(e.Body.Digest[:]),
					Age: e.Age(now).Seconds(), TTL: e.Left(now).Seconds(),
					Uncacheable: uncacheable(e), Hits: h.metrics.hits[e.Revision][k].Load(),
				})
			}
		}
	}
	return status
}

func describeFeed(s feed.Status) feedStatus {
	status := feedStatus{
		Era: s.Revision.Era().String(), Revision: s.Revision.String(),
		State: s.State, Since: s.Since, Listening: s.Listening, Unanswered: s.Unanswered,
	}
	if s.Failure != nil {
		status.Failure = &failureStatus{Stage: s.Failure.Stage, Message: s.Failure.Err.Error(), At: s.Failure.At}
	}
	for _, k := range s.Silent {
		status.Silent = append(status.Silent, k.String())
	}
	if !s.Next.IsZero() {
		status.Next = &s.Next
	}
	return status
}

// listedItem is one item of a snapshot.
type listedItem struct {
	name string
	raw  []byte
}

// itemSummary is what a list of items shows of each.
type itemSummary struct {
	Name        string `json:"name"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
}

// items returns the items of a kind's newest snapshot.
func (h *Handler) items(k revision.Kind) ([]listedItem, error) {
	e := h.newest(k)
	if e == nil {
		return nil, apiError(http.StatusNotFound, fmt.Errorf("there is no snapshot of %s", k))
	}
	if k == revision.Discover {
		return nil, apiError(http.StatusNotFound, errors.New("discover is not a list"))
	}
	raw := message.Items(e.Body.Bytes, k)
	items := make([]listedItem, len(raw))
	for i, name := range e.Body.Names() {
		items[i] = listedItem{name: name, raw: raw[i]}
	}
	return items, nil
}

func (i listedItem) summary() itemSummary {
	summary := itemSummary{Name: i.name}
	var said struct {
		Title       any `json:"title"`
		Description any `json:"description"`
	}
	// The upstream may have put anything there; only text is shown.
	if json.Unmarshal(i.raw, &said) == nil {
		summary.Title, _ = said.Title.(string)
		summary.Description, _ = said.Description.(string)
	}
	return summary
}

// refreshResult is what a refresh that somebody asked for has brought.
type refreshResult struct {
	Kind     string   `json:"kind"`
	Revision string   `json:"revision"`
	Items    int      `json:"items"`
	Added    []string `json:"added"`
	Removed  []string `json:"removed"`
	Changed  []string `json:"changed"`
	// More is how many items are different besides those that are named.
	More  int    `json:"more,omitempty"`
	Error string `json:"error,omitempty"`
}

// refresh fetches those kinds now, at every revision that keeps them.
func (h *Handler) refresh(ctx context.Context, kinds []revision.Kind) []refreshResult {
	var (
		wg      sync.WaitGroup
		mu      sync.Mutex
		results []refreshResult
	)
	for _, f := range h.shared.feeds.All() {
		for _, k := range kinds {
			wg.Go(func() {
				change, err := f.Refresh(ctx, k)
				if errors.Is(err, feed.ErrNotFeeding) {
					return
				}
				mu.Lock()
				defer mu.Unlock()
				results = append(results, describeChange(change, err))
			})
		}
	}
	wg.Wait()
	slices.SortFunc(results, func(a, b refreshResult) int {
		first, _ := revision.ParseKind(a.Kind)
		second, _ := revision.ParseKind(b.Kind)
		return cmp.Or(strings.Compare(a.Revision, b.Revision), cmp.Compare(first, second))
	})
	return results
}

func describeChange(c feed.Change, err error) refreshResult {
	names := func(list []string) []string { return append([]string{}, list...) }
	result := refreshResult{
		Kind: c.Kind.String(), Revision: c.Revision.String(), Items: c.Items,
		Added: names(c.Added), Removed: names(c.Removed), Changed: names(c.Changed), More: c.More,
	}
	if err != nil {
		result.Error = err.Error()
	}
	return result
}
