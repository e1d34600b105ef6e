package programtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// call runs a tool.
func (p *program) call(m *message) {
	text := fmt.Sprint(m.Params.Arguments["text"])
	switch m.Params.Name {
	case "die":
		exit(7)
	case "never":
		return
	case "ask":
		text = string(p.ask())
	case "twice":
		p.answer(m.ID, content("first"))
		p.mu.Lock()
		ids := slices.Clone(p.answered)
		p.mu.Unlock()
		for _, id := range ids {
			p.answer(id, content("again"))
		}
		return
	case "raw":
		p.write([]byte(strings.NewReplacer("ID", string(m.ID), "<ff>", "\xff", "<long>", strings.Repeat("x", 1_000_000)).Replace(text) + "\n"))
		return
	case "half": // of an answer with a text of that size
		p.mu.Lock()
		size, _ := m.Params.Arguments["size"].(float64)
		answer := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", m.ID, content(strings.Repeat("x", int(size))))
		p.rest = answer[len(answer)/2:]
		_, _ = p.out.Write(answer[:len(answer)/2])
		p.mu.Unlock()
		return
	case "rest": // of that
		p.mu.Lock()
		rest := p.rest
		p.mu.Unlock()
		p.write(rest)
	case "cancelled":
		heard := make(chan struct{})
		p.mu.Lock()
		p.cancelled = append(p.cancelled, heard)
		p.mu.Unlock()
		p.send(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":0}}`, m.Params.Meta.Token)
		<-heard
	default:
		p.say(m, text)
		text = p.knows(m, text)
	}
	p.answer(m.ID, content(text))
	if m.Params.Name == "ask_later" {
		go p.ask()
	}
}

// knows returns what a tool is asked, or else the text.
func (p *program) knows(m *message, text string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if size, ok := m.Params.Arguments["size"].(float64); ok {
		return strings.Repeat("x", int(size))
	}
	switch m.Params.Name {
	case "pid":
		return strconv.Itoa(os.Getpid())
	case "level":
		return p.level
	case "env":
		return strings.Join(os.Environ(), "\n")
	case "user":
		return strconv.Itoa(os.Getuid()) + " " + os.Getenv("HOME") + " " + os.Getenv("USER")
	case "dir":
		text, _ = os.Getwd()
	case "heard":
		return strconv.Itoa(p.heard)
	case "listens":
		return strconv.Itoa(len(p.listens))
	}
	return text
}

// say writes what a tool says before its answer.
func (p *program) say(m *message, text string) {
	switch m.Params.Name {
	case "junk":
		p.write([]byte("debug: \xff\xfe not UTF-8\n" + `{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"` + "\xff" + `"}}` + "\n"))
	case "complain":
		line := bytes.Repeat([]byte("complaint "), 100)
		for range 4000 {
			_, _ = os.Stderr.Write(append(line, '\n'))
		}
	case "progress":
		for n := range 3 {
			p.send(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d}}`, p.number(m.Params.Meta.Token), n)
		}
	case "log":
		p.send(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":%q}}`, text)
	case "change":
		p.change()
	case "update":
		p.send(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":%q}}`, text)
	}
}

// pings asks as many pings at once as the argument says, and reads no input meanwhile. It says how many
// were answered once all are.
func (p *program) pings(m *message) {
	n, _ := m.Params.Arguments["n"].(float64)
	answers := make(chan json.RawMessage, int(n))
	var all []byte
	p.mu.Lock()
	for range int(n) {
		p.asked++
		id := strconv.Itoa(p.asked)
		p.waiting[id] = answers
		all = fmt.Appendf(all, `{"jsonrpc":"2.0","id":%s,"method":"ping"}`+"\n", id)
	}
	p.mu.Unlock()
	p.write(all)
	go func() {
		for range int(n) {
			<-answers
		}
		p.answer(m.ID, content(strconv.Itoa(int(n))))
	}()
}
