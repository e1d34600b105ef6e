package caddytest

import (
	"bytes"
	"fmt"
	"slices"
)

// RawRequest is a request as it is written to a connection.
type RawRequest struct {
	Method, Path, Body string
	Header             []string // lines, without Host and those of the framing
	Host               string   // "" for the address it is sent to
	Chunked            bool
}

// Bytes returns the request's bytes for an address.
func (r *RawRequest) Bytes(addr string) []byte {
	var b bytes.Buffer
	host := r.Host
	if host == "" {
		host = addr
	}
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\n", r.Method, r.Path, host)
	for _, line := range r.Header {
		b.WriteString(line + "\r\n")
	}
	if !r.Chunked {
		fmt.Fprintf(&b, "Content-Length: %d\r\n\r\n%s", len(r.Body), r.Body)
		return b.Bytes()
	}
	b.WriteString("Transfer-Encoding: chunked\r\n\r\n")
	for part := range slices.Chunk([]byte(r.Body), 16) {
		fmt.Fprintf(&b, "%x\r\n%s\r\n", len(part), part)
	}
	b.WriteString("0\r\n\r\n")
	return b.Bytes()
}
