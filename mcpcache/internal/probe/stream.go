package probe

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/sse"
)

// Stream is what became of the attempt to listen for changes.
type Stream string

const (
	// StreamOpen: it opened.
	StreamOpen Stream = "open"
	// StreamRefused: the server opens none.
	StreamRefused Stream = "refused"
	// StreamOther: a GET is answered, but not with a stream.
	StreamOther Stream = "not a stream"
	// StreamSilent: the server did not say in time whether it listens.
	StreamSilent Stream = "silent"
	// StreamNone: there is nothing to listen for.
	StreamNone Stream = "not needed"
	// StreamSessionless: the server has no sessions, so that it could not tell
	// the cache's stream from those of clients, and the cache opens none.
	StreamSessionless Stream = "no session"
)

const (
	// ackTimeout is how long a server may take to open a stream.
	ackTimeout = 5 * time.Second

	maxNotice = 1 << 20

	acknowledged = "notifications/subscriptions/acknowledged"
)

// listen opens a stream of notices, as the cache would, and closes it again. media is
// what a server answers with instead of a stream, if it does.
func (c *conversation) listen(ctx context.Context) (_ Stream, media string) {
	announced := false
	for _, changed := range c.info.ListChanged {
		announced = announced || changed
	}
	switch {
	case !announced:
		return StreamNone, ""
	case c.revision.Era() == revision.Legacy && c.session == "":
		return StreamSessionless, ""
	}
	ctx, cancel := context.WithTimeout(ctx, min(c.timeout, ackTimeout))
	defer cancel()
	if c.revision.Era() == revision.Modern {
		return c.subscribe(ctx), ""
	}
	header := c.headers("")
	header.Set("Accept", "text/event-stream")
	res, err := c.send(ctx, http.MethodGet, c.url, header, nil)
	if err != nil {
		return silentOr(ctx, StreamRefused), ""
	}
	defer res.Body.Close()
	switch a := c.newAnswer(res); {
	case a.status != http.StatusOK:
		return StreamRefused, ""
	case a.media != "text/event-stream":
		return StreamOther, orNone(a.media)
	}
	return StreamOpen, ""
}

// subscribe listens the modern way. The stream is open when the server says so.
func (c *conversation) subscribe(ctx context.Context) Stream {
	const method = "subscriptions/listen"
	c.id++
	body, err := json.Marshal(rpc(c.id, method, map[string]any{
		"_meta": c.meta(),
		"notifications": map[string]any{
			"toolsListChanged":     c.info.ListChanged["tools"],
			"promptsListChanged":   c.info.ListChanged["prompts"],
			"resourcesListChanged": c.info.ListChanged["resources"],
		},
	}))
	if err != nil {
		return StreamRefused
	}
	res, err := c.send(ctx, http.MethodPost, c.url, c.headers(method), body)
	if err != nil {
		return silentOr(ctx, StreamRefused)
	}
	defer res.Body.Close()
	if a := c.newAnswer(res); a.status != http.StatusOK || a.media != "text/event-stream" {
		return StreamRefused
	}
	events := sse.NewReader(res.Body, maxNotice)
	for range 100 {
		event, err := events.Next()
		if err != nil {
			return silentOr(ctx, StreamRefused)
		}
		var m message.Request
		if message.Decode(event.Data, &m) == nil && string(m.Method) == acknowledged {
			return StreamOpen
		}
		if _, err := message.ParseResponse(event.Data); err == nil {
			return StreamRefused
		}
	}
	return StreamRefused
}

// silentOr tells a server that is slow from one that refuses.
func silentOr(ctx context.Context, refused Stream) Stream {
	if ctx.Err() != nil {
		return StreamSilent
	}
	return refused
}
