package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// callEach is how often a client calls a tool.
	callEach = 10 * time.Second
	// countedTools is how many tools the servers have.
	countedTools = 5
	// countedTTL is how long lists are fresh, whatever the servers say: FastMCP says 0.
	countedTTL = 5 * time.Minute
)

// requests counts the messages that reach a server, by their method.
type requests struct {
	server, way string // for the table

	mu       sync.Mutex
	byMethod map[string]int
}

func (q *requests) add(method string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.byMethod[method]++
}

// count returns how many messages had one of these methods.
func (q *requests) count(methods ...string) (n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, method := range methods {
		n += q.byMethod[method]
	}
	return n
}

// total returns how many messages there were.
func (q *requests) total() (n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, times := range q.byMethod {
		n += times
	}
	return n
}

// front counts what a server at an address is sent, and passes it on.
func (q *requests) front(ctx context.Context, server string) (addr string, err error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("listening: %w", err)
	}
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: server})
	proxy.FlushInterval = -1
	proxy.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }
	s := &http.Server{ReadHeaderTimeout: requestTimeout, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client has gone
		}
		if r.Method == http.MethodPost {
			q.add(methodOf(body))
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		defer func() { _ = recover() }() // the proxy's way to say that the client has gone
		proxy.ServeHTTP(w, r)
	})}
	go func() { _ = s.Serve(listener) }() // until ctx ends
	context.AfterFunc(ctx, func() { _ = s.Close() })
	return listener.Addr().String(), nil
}

// methodOf returns the method of a message; "answer" of one that has none.
func methodOf(message []byte) string {
	m := struct{ Method string }{"answer"}
	if json.Unmarshal(message, &m) != nil {
		return "no message"
	}
	return m.Method
}

// readLog counts what a program has been sent, by the file where it writes the methods.
func (q *requests) readLog(file string) error {
	content, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("reading what a program was sent: %w", err)
	}
	q.mu.Lock()
	clear(q.byMethod)
	q.mu.Unlock()
	for method := range strings.Lines(string(content)) {
		q.add(strings.TrimSpace(method))
	}
	return nil
}

// way is how a client reaches a server whose requests are counted.
type way struct {
	*requests

	site   string       // the upstream, for Caddy; "": the client reaches the server directly
	url    string       // of the endpoint; "" if the client starts a program
	args   []string     // of the program
	update func() error // brings the counts up to date; nil if they are
}

// countRequests has a client of each server list its tools, and call one each ten seconds, for as long as the
// options say: directly, and through mcp_cache. It prints how many requests have reached each server, and returns an error
// if those are to be checked, and are too many.
func countRequests(ctx context.Context, o *options, core int, w io.Writer) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	s, err := newStage(countedTools, core)
	if err != nil {
		return err
	}
	defer s.close()
	ways, err := s.ways(ctx, o)
	if err != nil {
		return err
	}
	if err := s.cacheInFront(ctx, ways); err != nil {
		return err
	}
	failed := make(chan error, len(ways))
	for _, to := range ways {
		go func() { failed <- to.use(ctx, makeTools(countedTools, 1)[0].Name, o.requests) }()
	}
	for range ways {
		err = errors.Join(err, <-failed)
	}
	if err != nil {
		return err
	}
	return report(ways, o, w)
}

// Names of ways.
const (
	direct = "direct"
	cached = "**`mcp_cache`**"
)

// counted are the servers whose requests are counted.
var counted = []struct{ name, role string }{
	{"FastMCP", fastMCPServerRole}, {"TypeScript SDK", typeScriptRole}, {"go-sdk", goSDKSessionsRole}, {"a program of go-sdk", programRole},
}

// ways starts the servers, and returns how clients reach them: each directly, and then through the cache.
func (s *stage) ways(ctx context.Context, o *options) (ways []*way, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	for _, server := range counted {
		if !o.wants(server.role) {
			continue
		}
		if server.role == programRole {
			ways = append(ways, s.program(self, server.name, direct), s.program(self, server.name, cached))
			continue
		}
		p, err := s.process(ctx, server.role)
		if err != nil {
			return nil, err
		}
		for _, name := range []string{direct, cached} {
			q := &requests{server: server.name, way: name, byMethod: make(map[string]int)}
			addr, err := q.front(ctx, p.addr)
			if err != nil {
				return nil, err
			}
			to := &way{requests: q, url: "http://" + addr + "/mcp"}
			if name == cached {
				to.site, to.url = to.url, ""
			}
			ways = append(ways, to)
		}
	}
	return ways, nil
}

// program is a way to a program, whose executable is self.
func (s *stage) program(self, server, name string) *way {
	q := &requests{server: server, way: name, byMethod: make(map[string]int)}
	file := s.file("program-" + strconv.FormatBool(name == cached))
	to := &way{requests: q, args: []string{self, programRole, "-", s.file("tools.json"), file}}
	to.update = func() error { return q.readLog(file) }
	if name == cached {
		to.site = `stdio "` + strings.Join(to.args, `" "`) + `"`
	}
	return to
}

// cacheInFront starts a Caddy with mcp_cache in front of the servers that are to have one, and waits until it has asked
// all for their tools.
func (s *stage) cacheInFront(ctx context.Context, ways []*way) error {
	file := caddyfile(s.file("storage-requests"), "")
	for _, to := range ways {
		if to.site == "" {
			continue
		}
		addr, err := freeAddr()
		if err != nil {
			return err
		}
		file = append(file, site(addr, fmt.Sprintf("mcp_cache %s {\n\tmin_ttl %s\n\tttl %s\n}", to.site, countedTTL, countedTTL))...)
		to.url = "http://" + addr + "/mcp"
	}
	if err := os.WriteFile(s.file("requests.caddyfile"), file, 0o600); err != nil {
		return fmt.Errorf("writing Caddyfile: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	p, err := start(ctx, "", self, caddyRole, "", s.file("requests.caddyfile"))
	if err != nil {
		return fmt.Errorf("starting Caddy: %w", err)
	}
	s.processes["requests"] = p
	if _, err := p.usage(); err != nil { // it answers when it is there
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	pause := time.NewTicker(20 * time.Millisecond)
	defer pause.Stop()
	for _, to := range ways {
		for to.site != "" && to.count("tools/list") == 0 {
			select {
			case <-pause.C:
			case <-ctx.Done():
				return fmt.Errorf("waiting until the tools of %s are listed: %w", to.server, ctx.Err())
			}
			if to.update != nil {
				if err := to.update(); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// use has a client list the tools, and call one each ten seconds.
func (to *way) use(ctx context.Context, tool string, long time.Duration) error {
	var transport mcp.Transport = &mcp.StreamableClientTransport{Endpoint: to.url}
	if to.url == "" {
		transport = &mcp.CommandTransport{Command: exec.CommandContext(ctx, to.args[0], to.args[1:]...)}
	}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "bench", Version: "1"}, nil).Connect(ctx, transport, nil)
	if err != nil {
		return fmt.Errorf("connecting to %s, %s: %w", to.server, to.way, err)
	}
	defer func() { _ = session.Close() }()
	if list, err := session.ListTools(ctx, nil); err != nil || len(list.Tools) != countedTools {
		return fmt.Errorf("listing tools of %s, %s: %v: %w", to.server, to.way, list, err)
	}
	over, each := time.After(long), time.NewTicker(callEach)
	defer each.Stop()
	for {
		result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: map[string]any{}})
		if err != nil || result.IsError {
			return fmt.Errorf("calling a tool of %s, %s: %v: %w", to.server, to.way, result, err)
		}
		select {
		case <-each.C:
		case <-over:
			if to.update != nil {
				return to.update()
			}
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// listMethods are those of lists.
var listMethods = []string{"tools/list", "prompts/list", "resources/list", "resources/templates/list"}

// report prints a table of the ways, which come in pairs: direct, and through the cache. It returns an error if the
// options ask for a check and the cache adds too much.
func report(ways []*way, o *options, w io.Writer) (err error) {
	var table strings.Builder
	fmt.Fprintf(&table, "| in %s | | sessions | calls | `tools/list` | other lists | all messages |\n| --- | --- |%s\n", o.requests, strings.Repeat(" ---: |", 5))
	for _, to := range ways {
		fmt.Fprintf(&table, "| %s | %s | %d | %d | %d | %d | %d |\n", to.server, to.way, to.count("initialize"), to.count("tools/call"),
			to.count("tools/list"), to.count(listMethods[1:]...), to.total())
	}
	if _, err := io.WriteString(w, table.String()); err != nil {
		return fmt.Errorf("printing: %w", err)
	}
	if !o.check {
		return nil
	}
	for pair := range slices.Chunk(ways, 2) {
		err = errors.Join(err, pair[1].tooMany(pair[0], o.requests))
	}
	return err
}

// tooMany returns an error if the cache had a server do more than clients by themselves: more calls, more sessions
// than its own besides, or more lists than clients ask for, and one for each era and ttl besides.
func (q *way) tooMany(direct *way, long time.Duration) (err error) {
	complain := func(what string, got, most int) {
		if got > most {
			err = errors.Join(err, fmt.Errorf("checking %s: %d %s, at most %d wanted", q.server, got, what, most))
		}
	}
	complain("calls", q.count("tools/call"), direct.count("tools/call"))
	complain("sessions", q.count("initialize"), direct.count("initialize")+1)
	// A list is fetched again when three quarters of its time are over, or later.
	own := 2 * (1 + int(math.Ceil(long.Seconds()/(0.75*countedTTL.Seconds()))))
	for _, method := range listMethods {
		complain(method, q.count(method), direct.count(method)+own)
	}
	return err
}

// runProgram runs a server of the official Go SDK on standard input and output. It writes the method of each message
// that it is sent into a file.
func runProgram(_ string, args []string) error {
	tools, err := readTools(args[0])
	if err != nil {
		return err
	}
	file, err := os.OpenFile(args[1], os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("opening the file of methods: %w", err)
	}
	defer file.Close()
	input, lines := io.Pipe()
	go func() {
		received := bufio.NewReader(os.Stdin)
		for {
			line, err := received.ReadBytes('\n')
			if err == nil {
				_, err = fmt.Fprintln(file, methodOf(line))
			}
			if err == nil {
				_, err = lines.Write(line)
			}
			if err != nil {
				_ = lines.CloseWithError(err) // always nil
				return
			}
		}
	}()
	return newGoSDKServer(tools).Run(context.Background(), &mcp.IOTransport{Reader: input, Writer: os.Stdout})
}
