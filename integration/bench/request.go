package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
)

const (
	// requestTimeout is how long a single request may take.
	requestTimeout = 30 * time.Second
	// firstID is the id of requests before it is counted up. Its length stays.
	firstID   = "1000000000"
	sessionID = "bench-session"
)

// request is one of a client, with a place for an id that changes.
type request struct {
	addr, body string
	header     http.Header
}

// newRequest makes a request. Params are the members of the object.
func newRequest(addr, session, method, params string) *request {
	r := &request{addr: addr, header: http.Header{
		"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "User-Agent": {"bench"},
	}}
	if session != "" {
		r.header["Mcp-Session-Id"] = []string{session}
		r.header["Mcp-Protocol-Version"] = []string{revision}
	}
	if params != "" {
		params = `,"params":{` + params + `}`
	}
	id := `"id":` + firstID + ","
	if strings.HasPrefix(method, "notifications/") {
		id = ""
	}
	r.body = `{"jsonrpc":"2.0",` + id + `"method":"` + method + `"` + params + `}`
	return r
}

func (r *request) http(ctx context.Context) (*http.Request, error) {
	h, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+r.addr+"/mcp", strings.NewReader(r.body))
	if err != nil {
		return nil, fmt.Errorf("making request: %w", err)
	}
	h.Header = r.header.Clone()
	return h, nil
}

// wire is a request as it goes over a connection.
type wire struct {
	raw []byte
	id  int // where the digits of the id begin
}

// wire returns the request with the first of the ids that belong to a lane.
func (r *request) wire(lane int) (wire, error) {
	h, err := r.http(context.Background())
	if err != nil {
		return wire{}, err
	}
	var b bytes.Buffer
	if err := h.Write(&b); err != nil {
		return wire{}, fmt.Errorf("writing request: %w", err)
	}
	w := wire{raw: b.Bytes(), id: bytes.Index(b.Bytes(), []byte(firstID))}
	copy(w.raw[w.id:], fmt.Sprint(1_000_000_000+lane*10_000_000))
	return w, nil
}

// next counts the id up.
func (w wire) next() {
	for i := w.id + len(firstID) - 1; i >= w.id; i-- {
		if w.raw[i] != '9' {
			w.raw[i]++
			return
		}
		w.raw[i] = '0'
	}
}

// answer is what a server has said, with its body decoded.
type answer struct {
	header http.Header
	body   []byte
}

var client = &http.Client{Timeout: requestTimeout, Transport: &http.Transport{DisableCompression: true}}

// ask sends a request once, and wants success.
func ask(ctx context.Context, r *request) (*answer, error) {
	h, err := r.http(ctx)
	if err != nil {
		return nil, err
	}
	res, err := client.Do(h)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	var body io.Reader = res.Body
	switch res.Header.Get("Content-Encoding") {
	case "gzip":
		body, err = gzip.NewReader(res.Body)
	case "zstd":
		var d *zstd.Decoder
		if d, err = zstd.NewReader(res.Body); err == nil {
			defer d.Close()
		}
		body = d
	}
	if err != nil {
		return nil, fmt.Errorf("decoding answer: %w", err)
	}
	a := &answer{header: res.Header}
	if a.body, err = io.ReadAll(body); err != nil {
		return nil, fmt.Errorf("reading answer: %w", err)
	}
	if res.StatusCode >= http.StatusMultipleChoices {
		return nil, fmt.Errorf("%s answered %s: %.200s", r.addr, res.Status, a.body)
	}
	return a, nil
}

// openSession initializes a session and returns its id. A server of ready bytes
// gives none and takes any.
func openSession(ctx context.Context, addr string) (string, error) {
	opened, err := ask(ctx, newRequest(addr, "", "initialize",
		`"protocolVersion":"`+revision+`","capabilities":{},"clientInfo":{"name":"bench","version":"1"}`))
	if err != nil {
		return "", fmt.Errorf("opening session: %w", err)
	}
	session := opened.header.Get("Mcp-Session-Id")
	if session == "" {
		session = sessionID
	}
	if _, err := ask(ctx, newRequest(addr, session, "notifications/initialized", "")); err != nil {
		return "", fmt.Errorf("opening session: %w", err)
	}
	return session, nil
}
