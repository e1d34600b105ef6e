package programtest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
)

// relayAgent is the User-Agent of the program's requests. The server behind the program counts them as
// requests of clients: it cannot see which of them the feed has caused.
const relayAgent = "mcptest/program"

// relayClient opens a connection for each request. A connection that is kept may end with a server that is killed and
// started again, and HTTP does not repeat a POST that finds that out.
var relayClient = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// relay is the program as the way to a server: it posts each line to the server's URL, and writes
// what the server answers.
type relay struct {
	*program

	url      string
	session  string
	revision string // of the session

	mu     sync.Mutex
	cancel map[string]context.CancelFunc // of requests under way, by id
}

// run passes messages on until the input ends.
func (r *relay) run() {
	r.cancel = make(map[string]context.CancelFunc)
	for input := bufio.NewReader(os.Stdin); ; {
		line, err := input.ReadBytes('\n')
		if err != nil {
			return
		}
		var m message
		must(json.Unmarshal(line, &m))
		switch {
		case m.ID != nil && m.Method != "initialize":
			ctx, cancel := context.WithCancel(context.Background())
			r.mu.Lock()
			r.cancel[string(m.ID)] = cancel
			r.mu.Unlock()
			go r.send(ctx, http.MethodPost, &m, line)
			continue
		case m.Method == "notifications/cancelled":
			r.mu.Lock()
			if cancel := r.cancel[string(m.Params.Request)]; cancel != nil {
				cancel()
			}
			r.mu.Unlock()
		}
		r.send(context.Background(), http.MethodPost, &m, line)
		if m.Method == "notifications/initialized" {
			go r.send(context.Background(), http.MethodGet, &m, nil)
		}
	}
}

// send sends a request, and writes each message of the answer. A request without an answer is
// answered with an error.
func (r *relay) send(ctx context.Context, method string, m *message, body []byte) {
	if err := r.try(ctx, method, m, body); err != nil && m.ID != nil && ctx.Err() == nil {
		r.program.send(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":%q}}`, m.ID, err.Error())
	}
}

func (r *relay) try(ctx context.Context, method string, m *message, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, method, r.url, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("making the request: %w", err)
	}
	r.setHeader(req.Header, m)
	res, err := relayClient.Do(req)
	if err != nil {
		return fmt.Errorf("reaching the server: %w", err)
	}
	defer res.Body.Close()
	kind := res.Header.Get("Content-Type")
	if strings.HasPrefix(kind, "text/event-stream") {
		for lines := bufio.NewReader(res.Body); ; {
			line, err := lines.ReadString('\n')
			if err != nil {
				return nil // it may have been answered
			}
			if data, ok := strings.CutPrefix(line, "data:"); ok {
				r.write([]byte(strings.TrimSpace(data) + "\n"))
			}
		}
	}
	answer, err := io.ReadAll(res.Body)
	switch {
	case err != nil:
		return fmt.Errorf("reading the answer: %w", err)
	case method != http.MethodPost || m.ID == nil:
		return nil
	case !strings.HasPrefix(kind, "application/json"), !json.Valid(answer):
		return fmt.Errorf("the server answers %d", res.StatusCode)
	}
	if m.Method == "initialize" {
		r.learn(res.Header, answer)
	}
	r.write(append(bytes.ReplaceAll(answer, []byte("\n"), []byte(" ")), '\n'))
	return nil
}

// learn takes what initialize says of the session.
func (r *relay) learn(h http.Header, answer []byte) {
	var said struct {
		Result struct {
			Revision string `json:"protocolVersion"`
		}
	}
	must(json.Unmarshal(answer, &said))
	r.session, r.revision = h.Get("Mcp-Session-Id"), said.Result.Revision
}

// setHeader repeats in the header what a message says, as Streamable HTTP has it. X-Instance is
// the number of the process that has started the program.
func (r *relay) setHeader(h http.Header, m *message) {
	h.Set("User-Agent", relayAgent)
	h.Set("X-Instance", strconv.Itoa(os.Getppid()))
	h.Set("Accept", "application/json, text/event-stream")
	h.Set("Content-Type", "application/json")
	for name, value := range map[string]string{"Mcp-Session-Id": r.session, "Mcp-Protocol-Version": r.revision} {
		if value != "" {
			h.Set(name, value)
		}
	}
	if revision := m.Params.Meta.Revision; revision != "" {
		h.Set("Mcp-Protocol-Version", revision)
		h.Set("Mcp-Method", m.Method)
		if named := m.Params.Name + m.Params.URI; named != "" {
			h.Set("Mcp-Name", named)
		}
	}
}
