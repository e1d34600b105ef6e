package main

import (
	"bytes"
	"fmt"
	"strings"
)

// Revisions that can be measured: one of each era.
const (
	modern = "2026-07-28"
	legacy = "2025-11-25"
)

// firstID is the id of requests before it is counted up. Its length stays.
const firstID = "1000000000"

// Request is an HTTP request as it goes over the wire, with a place for an id
// that changes.
type Request struct {
	Raw []byte
	// ID is where the digits of the id begin.
	ID int
}

// caller is who requests come from.
type caller struct {
	revision string
	session  string // "" for none
}

// request writes a request for a server at an address. Params are the members
// of the object, without braces; name is what is mirrored into a header in the
// modern era. More are whole header lines.
func (c caller) request(addr, method, name, params string, more ...string) Request {
	header := []string{
		"POST /mcp HTTP/1.1", "Host: " + addr, "User-Agent: bench", "Content-Type: application/json",
		"Accept: application/json, text/event-stream",
	}
	if method != "initialize" || c.revision == modern {
		header = append(header, "Mcp-Protocol-Version: "+c.revision)
	}
	if c.session != "" {
		header = append(header, "Mcp-Session-Id: "+c.session)
	}
	if c.revision == modern {
		header = append(header, "Mcp-Method: "+method)
		if name != "" {
			header = append(header, "Mcp-Name: "+name)
		}
		params = join(params, `"_meta":{"io.modelcontextprotocol/protocolVersion":"`+modern+`",`+
			`"io.modelcontextprotocol/clientCapabilities":{},`+
			`"io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"}}`)
	}
	body := `{"jsonrpc":"2.0","id":` + firstID + `,"method":"` + method + `"`
	if params != "" {
		body += `,"params":{` + params + `}`
	}
	body += "}"
	header = append(header, more...)
	header = append(header, fmt.Sprintf("Content-Length: %d", len(body)))
	raw := []byte(strings.Join(header, "\r\n") + "\r\n\r\n" + body)
	return Request{Raw: raw, ID: indexAfter(raw, `"id":`)}
}

// indexAfter returns where the text after the first mark begins.
func indexAfter(raw []byte, mark string) int { return bytes.Index(raw, []byte(mark)) + len(mark) }

// notification turns a request into one without an id.
func (r Request) notification() Request {
	_, body, _ := bytes.Cut(r.Raw, []byte("\r\n\r\n"))
	without := bytes.Replace(body, []byte(`"id":`+firstID+`,`), nil, 1)
	raw := bytes.Replace(r.Raw, body, without, 1)
	length := func(b []byte) []byte { return fmt.Appendf(nil, "Content-Length: %d\r\n", len(b)) }
	return Request{Raw: bytes.Replace(raw, length(body), length(without), 1)}
}

// join puts members of an object one after the other.
func join(members ...string) string {
	var there []string
	for _, m := range members {
		if m != "" {
			there = append(there, m)
		}
	}
	return strings.Join(there, ",")
}

// clone returns a copy that can be counted up on its own, beginning with its
// part of all ids.
func (r Request) clone(part int) Request {
	raw := bytes.Clone(r.Raw)
	copy(raw[r.ID:], fmt.Sprintf("%d", 1_000_000_000+part*10_000_000))
	return Request{Raw: raw, ID: r.ID}
}

// next counts the id up.
func (r Request) next() {
	for i := r.ID + len(firstID) - 1; i >= r.ID; i-- {
		if r.Raw[i] != '9' {
			r.Raw[i]++
			return
		}
		r.Raw[i] = '0'
	}
}
