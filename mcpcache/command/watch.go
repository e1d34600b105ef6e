package command

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/feed"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/report"
)

// watchPause is the time between two looks at feeds that were ready.
const watchPause = time.Second

// watchFeeds says so when feeds of this process fail that do not now, and when they
// no longer do, until ctx ends. why is asked when all of them fail.
func watchFeeds(ctx context.Context, out io.Writer, logger *zap.Logger, why func(context.Context) string) {
	defer func() {
		if p := recover(); p != nil {
			logger.Error("watching the feeds panicked", zap.Any("panic", p))
		}
	}()
	ticker := time.NewTicker(watchPause)
	defer ticker.Stop()
	said, _ := failingFeeds(withFeeds(report.Live.Statuses(time.Now())))
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		if caddy.Exiting() { // and programs end, which is no trouble
			return
		}
		statuses := withFeeds(report.Live.Statuses(time.Now()))
		now, all := failingFeeds(statuses)
		if now == said {
			continue
		}
		said = now
		text, _ := progress(statuses)
		fmt.Fprintln(out, text)
		if now != "" && all {
			if reason := why(ctx); reason != "" {
				fmt.Fprintln(out, reason)
			}
		}
	}
}

// failingFeeds names the feeds that somebody should look after, with their
// states; "" if there is none. all says that no other feed is of use.
func failingFeeds(statuses []report.Status) (names string, all bool) {
	var feeds []string
	all = true
	for _, status := range statuses {
		for _, f := range status.Feeds {
			if failing(f.State) {
				feeds = append(feeds, status.Name+" "+f.Revision+" "+string(f.State))
			} else {
				all = all && f.State == feed.Unsupported
			}
		}
	}
	return strings.Join(feeds, ", "), all
}
