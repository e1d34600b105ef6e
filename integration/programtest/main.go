// Package programtest is a program that speaks MCP on its standard input and output, and
// misbehaves on demand. It runs in the binary of the tests that import it, see [Main].
package programtest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// word is the first argument of a process that is the program.
const word = "mcp-test-program"

// Command returns the command of the program with those traits:
//
//	exits       writes to standard error, and ends with status 3
//	once FILE   does that if there is no such file, and makes it
//	mute        answers nothing
//	banner      greets, with CRLF and a byte order mark; ends its lines with CRLF
//	deaf        ignores the end of its input
//	stubborn    ignores the end of its input, and SIGTERM
//	forks       leaves a process that holds its standard output. Its number is in PID.child
//	            of the directory in the argument after it
//	waits FILE  starts once there is that file
//	locks FILE  ends if another one has that file, see [syscall.Flock]
//	refuses     answers initialize with an error
//	silent      says nothing to a request before initialize, but for ping
//	modern      has no sessions: it speaks 2026-07-28
//	turns FILE  is modern, if there is that file
//	curt        does not say what it speaks to who wants a session, if it has none
//	dual        is modern, or has sessions, by the first request that it is sent
//	hesitates FILE  is modern, and makes the file, if there is none, and then answers
//	            server/discover only after a ping, after which it takes no modern request
//	leaves      ends with status 3 once a client has said that it is initialized
//	announces   says that its tools have changed once a client has said that it is initialized
//	grows FILE  has another tool, if there is that file
//	fleeting    says of its lists, without sessions, that they are never fresh
//	learns FILE also has prompts, if there is that file
//	fails FILE  answers tools/list with an error while there is that file
//	loose       writes numbers as fractions, members of null, and the version twice
//	pids DIR    makes a file there whose name is its process number
//	relay URL   passes each message to the server at that URL, and its answers back
func Command(traits ...string) (path string, args []string) {
	path, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return path, append([]string{word}, traits...)
}

// Main runs the program if this process is to be it, and does not return then.
func Main() {
	if len(os.Args) < 2 || os.Args[1] != word {
		return
	}
	p := &program{out: os.Stdout, traits: os.Args[2:], waiting: make(map[string]chan json.RawMessage), listens: make(map[string]bool)}
	p.run()
	exit(0)
}

type program struct {
	traits []string
	locked *os.File

	mu          sync.Mutex
	out         io.Writer
	initialized bool
	waiting     map[string]chan json.RawMessage // answers of the client, by id
	asked       int
	cancelled   []chan struct{}
	level       string
	answered    []json.RawMessage // ids
	version     int               // of the tool
	heard       int               // cancellations
	era         string            // what a dual program is
	listens     map[string]bool   // ids of subscriptions
	rest        []byte            // the second half of an answer
	held        json.RawMessage   // the id of a server/discover that is not answered yet
}

type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name      string         `json:"name"`
		URI       string         `json:"uri"`
		Level     string         `json:"level"`
		Arguments map[string]any `json:"arguments"`
		Meta      struct {
			Token    json.RawMessage `json:"progressToken"`
			Revision string          `json:"io.modelcontextprotocol/protocolVersion"`
		} `json:"_meta"`
		Version string          `json:"protocolVersion"`
		Request json.RawMessage `json:"requestId"`
	} `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

func (p *program) is(trait string) bool { return slices.Contains(p.traits, trait) }

func (p *program) argument(trait string) string {
	if at := slices.Index(p.traits, trait); at >= 0 && at+1 < len(p.traits) {
		return p.traits[at+1]
	}
	return ""
}

func (p *program) run() {
	p.begin()
	if url := p.argument("relay"); url != "" {
		(&relay{program: p, url: url}).run()
		return
	}
	input := bufio.NewReader(os.Stdin)
	for {
		line, err := input.ReadBytes('\n')
		if err != nil {
			break
		}
		var m message
		if json.Unmarshal(line, &m) != nil {
			fmt.Fprintln(os.Stderr, "not JSON:", string(line))
			exit(4)
		}
		if !p.is("mute") {
			p.receive(&m)
		}
	}
	if p.is("stubborn") || p.is("deaf") {
		select {}
	}
}

// begin does what the traits say about the start.
func (p *program) begin() {
	if p.is("exits") {
		fmt.Fprintln(os.Stderr, "cannot find the database")
		exit(3)
	}
	if file := p.argument("once"); file != "" {
		if _, err := os.Stat(file); err != nil {
			must(os.WriteFile(file, nil, 0o600))
			exit(3)
		}
	}
	if p.is("stubborn") {
		signal.Ignore(syscall.SIGTERM)
	}
	if dir := p.argument("pids"); dir != "" {
		must(os.WriteFile(dir+"/"+strconv.Itoa(os.Getpid()), nil, 0o600))
	}
	if file := p.argument("waits"); file != "" {
		for {
			if _, err := os.Stat(file); err == nil {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	if file := p.argument("locks"); file != "" {
		p.lock(file)
	}
	if dir := p.argument("forks"); dir != "" {
		child := exec.Command("sleep", "1000")
		child.Stdout = os.Stdout
		must(child.Start())
		must(os.WriteFile(dir+"/"+strconv.Itoa(child.Process.Pid), nil, 0o600))
	}
	if p.is("banner") {
		fmt.Fprint(p.out, "\uFEFFWelcome to the server!\r\n\r\n[1, 2]\r\n{not: JSON}\r\n\xff\xfe\r\n")
	}
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		exit(5)
	}
}

// receive takes a message of the client.
func (p *program) receive(m *message) {
	switch {
	case m.Method == "": // an answer
		p.mu.Lock()
		waits := p.waiting[string(m.ID)]
		p.mu.Unlock()
		if waits != nil {
			waits <- slices.Concat(m.Result, m.Error)
		}
	case m.Method != "notifications/cancelled" && m.ID != nil && p.isModern(m):
		p.receiveModern(m)
	case m.Method == "initialize":
		p.initialize(m)
	case m.Method == "notifications/cancelled":
		p.mu.Lock()
		p.heard++
		delete(p.listens, string(m.Params.Request))
		for _, c := range p.cancelled {
			close(c)
		}
		p.cancelled = nil
		p.mu.Unlock()
	case m.Method == "notifications/initialized" && p.is("leaves"):
		fmt.Fprintln(os.Stderr, "cannot reach the database")
		exit(3)
	case m.ID == nil:
		if m.Method == "notifications/initialized" && p.is("announces") {
			p.send(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		}
	case !p.initialized && p.is("silent"):
		if m.Method == "ping" {
			p.answer(m.ID, `{}`)
		}
	case !p.initialized:
		fmt.Fprintln(os.Stderr, "a request before initialize")
		exit(6)
	case m.Method == "tools/list" && p.isFailing():
		p.send(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":"no tools for now"}}`, m.ID)
	case m.Method == "tools/list":
		p.answer(m.ID, `{"tools":[`+p.tools()+`]}`)
	case m.Method == "tools/call" && m.Params.Name == "pings":
		p.pings(m)
	case m.Method == "tools/call":
		go p.call(m)
	case m.Method == "logging/setLevel":
		p.level = m.Params.Level
		p.answer(m.ID, `{}`)
	case m.Method == "resources/subscribe" && strings.HasSuffix(m.Params.URI, "refused"):
		p.send(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32002,"message":"no such resource"}}`, m.ID)
	case m.Method == "ping", m.Method == "resources/subscribe", m.Method == "resources/unsubscribe":
		p.mu.Lock()
		if m.Method == "resources/subscribe" {
			p.listens[m.Params.URI] = true
		} else {
			delete(p.listens, m.Params.URI)
		}
		p.mu.Unlock()
		p.answer(m.ID, `{}`)
	default:
		p.send(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"unknown method"}}`, m.ID)
	}
}

func (p *program) initialize(m *message) {
	switch {
	case p.initialized:
		p.send(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32600,"message":"already initialized"}}`, m.ID)
	case p.is("refuses"):
		p.send(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"unsupported version","data":{"supported":["2026-07-28"]}}}`, m.ID)
	default:
		p.initialized = true
		p.answer(m.ID, fmt.Sprintf(`{"protocolVersion":%q,"capabilities":{%s"tools":{"listChanged":true},"logging":{}},"serverInfo":{"name":"test","version":"1"}}`,
			m.Params.Version, p.learned()))
	}
}

// learned returns a capability that the program has learned, if it has.
func (p *program) learned() string {
	if _, err := os.Stat(p.argument("learns")); err == nil {
		return `"prompts":{},`
	}
	return ""
}

// isFailing reports whether tools/list is answered with an error.
func (p *program) isFailing() bool {
	_, err := os.Stat(p.argument("fails"))
	return err == nil
}

// tools returns those that are listed: a change has the first one say another number.
func (p *program) tools() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	more := ""
	if _, err := os.Stat(p.argument("grows")); err == nil {
		more = `,{"name":"grown","inputSchema":{"type":"object"}}`
	}
	return fmt.Sprintf(`{"name":"echo","inputSchema":{"type":"object"},"x":1234567890123456789%d}%s`, p.version, more)
}

func content(text string) string {
	quoted, _ := json.Marshal(text)
	return fmt.Sprintf(`{"content":[{"type":"text","text":%s}]}`, quoted)
}

// ask has the client sample, and returns what it says.
func (p *program) ask() json.RawMessage {
	p.mu.Lock()
	p.asked++
	id := strconv.Itoa(p.asked)
	answer := make(chan json.RawMessage, 1)
	p.waiting[id] = answer
	p.mu.Unlock()
	p.send(`{"jsonrpc":"2.0","id":%s,"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}`, id)
	return <-answer
}

func (p *program) answer(id json.RawMessage, result string) {
	p.mu.Lock()
	p.answered = append(p.answered, id)
	p.mu.Unlock()
	if p.is("loose") {
		p.send(`{"jsonrpc":"2.0","method":null,"id":%s,"error":null,"jsonrpc":"2.0","result":%s}`, p.number(id), result)
		return
	}
	p.send(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
}

// number returns a number of the client's as the program writes it.
func (p *program) number(plain json.RawMessage) json.RawMessage {
	if p.is("loose") {
		return append(slices.Clone(plain), ".0"...)
	}
	return plain
}

func (p *program) send(format string, args ...any) {
	end := "\n"
	if p.is("banner") {
		end = "\r\n"
	}
	p.write([]byte(fmt.Sprintf(format, args...) + end))
}

func (p *program) write(line []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, _ = p.out.Write(line)
}

// exit ends the process at once: with the race detector, [os.Exit] takes a second, and lists for
// which the program says a second would be fetched for as long as it takes.
func exit(code int) { syscall.Exit(code) }
