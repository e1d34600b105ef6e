package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
)

// answer is what a server has said, with its body decoded.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// ask sends a request and returns the answer.
func ask(ctx context.Context, addr string, request Request) (*answer, error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("connecting: %w", err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(requestTimeout)); err != nil {
		return nil, fmt.Errorf("setting deadline: %w", err)
	}
	if _, err := c.Write(request.Raw); err != nil {
		return nil, fmt.Errorf("writing request: %w", err)
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return nil, fmt.Errorf("reading answer: %w", err)
	}
	defer res.Body.Close()
	body, err := decoded(res)
	if err != nil {
		return nil, fmt.Errorf("reading answer: %w", err)
	}
	a := &answer{res.StatusCode, res.Header, body}
	if a.status >= http.StatusMultipleChoices {
		return nil, fmt.Errorf("server answered %d: %.200s", a.status, a.body)
	}
	return a, nil
}

func decoded(res *http.Response) ([]byte, error) {
	switch encoding := res.Header.Get("Content-Encoding"); encoding {
	case "":
		return io.ReadAll(res.Body)
	case "gzip":
		r, err := gzip.NewReader(res.Body)
		if err != nil {
			return nil, err
		}
		return io.ReadAll(r)
	case "zstd":
		r, err := zstd.NewReader(res.Body, zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, err
		}
		defer r.Close()
		return io.ReadAll(r)
	default:
		return nil, fmt.Errorf("encoding %q is not known", encoding)
	}
}

// isHit reports whether an answer came from the cache.
func (a *answer) isHit() bool { return strings.Contains(a.header.Get("Cache-Status"), "; hit") }

// message returns the JSON-RPC message: the body, or the data of the last event.
func (a *answer) message() []byte {
	if !strings.HasPrefix(a.header.Get("Content-Type"), "text/event-stream") {
		return a.body
	}
	_, data, _ := bytes.Cut(a.body[max(0, bytes.LastIndex(a.body, []byte("data:"))):], []byte("data:"))
	return bytes.TrimSpace(data)
}

// tools returns how many tools an answer lists, and an error if it is no list.
func (a *answer) tools() (int, error) {
	var m struct {
		Result struct {
			Tools []json.RawMessage `json:"tools"`
		} `json:"result"`
	}
	if err := json.Unmarshal(a.message(), &m); err != nil {
		return 0, fmt.Errorf("reading list: %w", err)
	}
	return len(m.Result.Tools), nil
}

// await asks until an answer is as wanted, and returns the last if none is; an
// error if there was none at all.
func await(ctx context.Context, addr string, request Request, limit time.Duration, wanted func(*answer) bool) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	pause := time.NewTicker(20 * time.Millisecond)
	defer pause.Stop()
	var last *answer
	for {
		a, err := ask(ctx, addr, request)
		if err == nil {
			if last = a; wanted(a) {
				return a, nil
			}
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			if last != nil {
				return last, nil
			}
			return nil, err
		}
	}
}
