package probe

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/header"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/redirect"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/sse"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/version"
)

const (
	// maxHead is how much is read of an answer that is no MCP message.
	maxHead = 64 << 10
	// maxHeader is the most bytes of an answer's headers.
	maxHeader = 256 << 10
	// maxNoise is what an event stream may hold besides the answer.
	maxNoise = 1 << 20
)

// errTooLarge says that an answer has more bytes than a cached list may have.
var errTooLarge = errors.New("answer is too large")

// errNoAnswer says that an event stream ended without the answer.
var errNoAnswer = errors.New("the stream ended without an answer")

// errOutOfTime says that the whole examination has taken too long.
var errOutOfTime = errors.New("time ran out")

// client sends requests of one caller.
type client struct {
	http     *http.Client
	header   http.Header
	timeout  time.Duration
	patience time.Duration // for an acknowledgement
	maxList  int64
	secrets  [][]byte // to be hidden in answers
	slash    *redirect.Slash
	oddities *oddities
}

// answer is what came back: a result, a JSON-RPC error, or something else, of
// which the head is kept.
type answer struct {
	status int
	media  string
	header http.Header
	result []byte
	rpc    *message.Error
	hasID  bool // rpc names the request
	head   []byte

	coding     string   // in which it came, though nobody had asked for one
	unread     error    // why its last message cannot be read
	deviations []string // what is odd about it
}

// newHTTPClient returns a client that follows no redirect by itself: it could take
// credentials elsewhere. It counts the connections that it opens.
func newHTTPClient(connections *atomic.Int64) *http.Client {
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dialPatiently(ctx, network, address)
		if err == nil {
			connections.Add(1)
		}
		return conn, err
	}
	return &http.Client{
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, DialContext: dial,
			ForceAttemptHTTP2: true, MaxResponseHeaderBytes: maxHeader,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}
}

// post sends one request and reads the answer to that ID. It waits for the timeout at
// most.
func (c *client) post(ctx context.Context, url string, header http.Header, id int, body map[string]any) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	data, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("writing a request: %w", err)
	}
	res, err := c.send(ctx, http.MethodPost, url, header, data)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	a := c.newAnswer(res)
	if a.status == http.StatusOK && a.coding != "" {
		return a, nil // in which nothing can be read
	}
	if a.status == http.StatusOK && a.media == "text/event-stream" {
		return a, c.readStream(a, res.Body, id)
	}
	return a, c.readBody(a, res.Body, id)
}

func (c *client) newAnswer(res *http.Response) *answer {
	media, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	for _, name := range []string{"Location", "Www-Authenticate"} { // what of it may be shown
		for i, value := range res.Header[name] {
			res.Header[name][i] = string(c.hide([]byte(value)))
		}
	}
	return &answer{status: res.StatusCode, media: media, header: res.Header, coding: header.Coding(res.Header)}
}

// send sends a request with the caller's headers. As the cache does, it follows one redirect
// to the same path with a slash more, or less.
func (c *client) send(ctx context.Context, method, url string, header http.Header, body []byte) (*http.Response, error) {
	res, err := c.sendOnce(ctx, method, url, header, body)
	if err != nil || !c.slash.Learn(method, res.Request.URL, res.Request.URL.Host, res.StatusCode, res.Header.Get("Location")) {
		return res, err
	}
	_ = res.Body.Close()
	return c.sendOnce(ctx, method, twin(res.Request.URL), header, body)
}

// twin returns the URL with a slash more, or less, at the end of its path.
func twin(u *url.URL) string {
	other := *u
	other.Path = redirect.Twin(u.Path)
	return other.String()
}

func (c *client) sendOnce(ctx context.Context, method, url string, header http.Header, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("preparing a request: %w", err)
	}
	maps.Copy(req.Header, c.header)
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
	}
	maps.Copy(req.Header, header)
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", clientName+"/"+version.Own())
	}
	return c.http.Do(req)
}

// readBody reads an answer that is one message, or none at all.
func (c *client) readBody(a *answer, body io.Reader, id int) error {
	limit := int64(maxHead)
	if a.status == http.StatusOK && a.media == "application/json" {
		limit = c.maxList
	}
	data, err := io.ReadAll(io.LimitReader(body, limit+1))
	if err != nil {
		return fmt.Errorf("reading an answer: %w", err)
	}
	if int64(len(data)) > limit {
		if limit != maxHead {
			return errTooLarge
		}
		data = data[:maxHead]
	}
	if data = c.hide(data); !a.take(data, id) {
		a.head = data[:min(len(data), maxHead)]
	}
	return nil
}

// readStream reads an event stream up to the answer.
func (c *client) readStream(a *answer, body io.Reader, id int) error {
	limited := &io.LimitedReader{R: body, N: c.maxList + maxNoise}
	events := sse.NewReader(limited, int(c.maxList))
	for {
		event, err := events.Next()
		switch {
		case errors.Is(err, sse.ErrTooLarge) || err != nil && limited.N <= 0:
			return errTooLarge
		case errors.Is(err, io.EOF):
			return errNoAnswer
		case err != nil:
			return fmt.Errorf("reading an answer: %w", err)
		}
		if a.take(c.hide(bytes.Clone(event.Data)), id) {
			return nil
		}
	}
}

// errOther says that an answer is not to the request.
var errOther = errors.New("it is to another request")

// take takes data for the answer if it is one to the request of that ID.
func (a *answer) take(data []byte, id int) bool {
	response, err := message.ParseResponse(data)
	if err != nil {
		a.unread = err
		return false
	}
	// An error may come without an ID, where the server has read none.
	if string(response.ID) != strconv.Itoa(id) && (response.Error == nil || response.ID != nil) {
		a.unread = errOther
		return false
	}
	a.result, a.rpc, a.hasID = response.Result, response.Error, response.ID != nil
	a.deviations = message.Deviations(data)
	return true
}
