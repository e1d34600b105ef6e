package report

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/feed"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// Refreshed is what a refresh that somebody asked for has brought.
type Refreshed struct {
	// Server is that of a toolkit whose list it is.
	Server   string   `json:"server,omitempty"`
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

// Refresh fetches those kinds now, at every revision that keeps them. It returns
// when that is done, or ctx ends. That no feed keeps any of them is an error of
// the type *[Error].
func Refresh(ctx context.Context, s Source, kinds []revision.Kind) ([]Refreshed, error) {
	var (
		wg      sync.WaitGroup
		mu      sync.Mutex
		results []Refreshed
	)
	for _, server := range withServers(s) {
		for _, f := range server.Feeds().All() {
			for _, k := range kinds {
				wg.Go(func() {
					change, err := f.List(k).Refresh(ctx)
					if errors.Is(err, feed.ErrNotFeeding) {
						return
					}
					result := describeChange(server, change, err)
					if server != s {
						result.Server = server.Name()
					}
					mu.Lock()
					defer mu.Unlock()
					results = append(results, result)
				})
			}
		}
	}
	wg.Wait()
	if len(results) == 0 {
		return nil, trouble(Unavailable, "no feed is connected that keeps what was asked for")
	}
	slices.SortFunc(results, func(a, b Refreshed) int {
		first, _ := revision.ParseKind(a.Kind)
		second, _ := revision.ParseKind(b.Kind)
		return cmp.Or(strings.Compare(a.Server, b.Server), strings.Compare(a.Revision, b.Revision), cmp.Compare(first, second))
	})
	return results, nil
}

func describeChange(s Source, c feed.Change, err error) Refreshed {
	names := func(list []string) []string { return append([]string{}, list...) }
	result := Refreshed{
		Kind: c.Kind.String(), Revision: c.Revision.String(), Items: c.Items,
		Added: names(c.Added), Removed: names(c.Removed), Changed: names(c.Changed), More: c.More,
	}
	if err != nil {
		result.Error = plainly(s, err)
	}
	return result
}
