package programtest

import (
	"encoding/json"
	"fmt"
	"os"
)

// isModern reports whether a request is answered as a server without sessions does.
func (p *program) isModern(m *message) bool {
	named := m.Params.Meta.Revision != ""
	switch {
	case p.is("dual"):
		if p.era == "" {
			p.era = "legacy"
			if named {
				p.era = "modern"
			}
		}
		return p.era == "modern"
	case p.is("hesitates"):
		return true
	}
	_, err := os.Stat(p.argument("turns"))
	return p.is("modern") || err == nil
}

// receiveModern takes a request at 2026-07-28.
func (p *program) receiveModern(m *message) {
	switch {
	case p.hesitate(m):
	case m.Method == "initialize" && p.is("curt"):
		p.send(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"no sessions"}}`, m.ID)
	case m.Method == "initialize":
		p.send(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32022,"message":"no sessions","data":{"supported":["2026-07-28"]}}}`, m.ID)
	case m.Params.Meta.Revision == "" || p.era == "pinged":
		p.send(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32600,"message":"a modern server in use"}}`, m.ID)
	case m.Params.Meta.Revision != "2026-07-28":
		p.send(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32022,"message":"unsupported","data":{"supported":["2026-07-28"]}}}`, m.ID)
	case m.Method == "server/discover":
		p.answer(m.ID, discovered)
	case m.Method == "tools/list" && p.isFailing():
		p.send(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":"no tools for now"}}`, m.ID)
	case m.Method == "tools/list":
		ttl := 1000
		if p.is("fleeting") {
			ttl = 0
		}
		p.answer(m.ID, fmt.Sprintf(`{"resultType":"complete","ttlMs":%d,"cacheScope":"public","tools":[%s]}`, ttl, p.tools()))
	case m.Method == "tools/call":
		go p.call(m)
	case m.Method == "subscriptions/listen":
		p.mu.Lock()
		p.listens[string(m.ID)] = true
		p.mu.Unlock()
		p.send(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":%s},"notifications":{"toolsListChanged":true}}}`, p.number(m.ID))
	default:
		p.send(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"unknown method"}}`, m.ID)
	}
}

const discovered = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"test","version":"1"},"ttlMs":1000,"cacheScope":"public"}`

// hesitate reports whether a message of a process that hesitates is answered here.
func (p *program) hesitate(m *message) bool {
	file := p.argument("hesitates")
	if file == "" {
		return false
	}
	switch m.Method {
	case "server/discover":
		if _, err := os.Stat(file); err == nil {
			return false
		}
		must(os.WriteFile(file, nil, 0o600))
		p.held = m.ID
		return true
	case "ping":
		p.era = "pinged"
		p.answer(m.ID, `{}`)
		p.answer(p.held, discovered)
		return true
	}
	return false
}

// change tells that the tools have changed: each subscription, if there are some.
func (p *program) change() {
	p.mu.Lock()
	p.version++
	var ids []string
	for id := range p.listens { // those of sessions are URIs
		if json.Valid([]byte(id)) {
			ids = append(ids, id)
		}
	}
	p.mu.Unlock()
	for _, id := range ids {
		p.send(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":%s}}}`, p.number(json.RawMessage(id)))
	}
	if len(ids) == 0 {
		p.send(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
	}
}
