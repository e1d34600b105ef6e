package main

import (
	"bufio"
	"io"
	"strings"
	"testing"
)

func TestReadReply(t *testing.T) {
	answers := "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\ncontent-length: 5\r\n\r\nhello" +
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n5\r\nhello\r\nA;x=y\r\n0123456789\r\n0\r\nX: 1\r\n\r\n" +
		"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"
	in := bufio.NewReader(strings.NewReader(answers))
	for i, want := range []struct {
		status int
		bytes  int64
		ok     bool
	}{{200, 5, true}, {200, 15, true}, {503, 0, false}} {
		r, err := readReply(in)
		if err != nil || r.status != want.status || r.bytes != want.bytes {
			t.Fatalf("answer %d: got %+v and error %v", i, r, err)
		}
		if r.first.IsZero() || (r.failure() == nil) != want.ok {
			t.Errorf("answer %d: got %+v, failure %v", i, r, r.failure())
		}
	}
	if rest, _ := io.ReadAll(in); len(rest) > 0 {
		t.Errorf("left over: %q", rest)
	}
}

func TestReadReplyFails(t *testing.T) {
	for name, answer := range map[string]string{
		"nothing":           "",
		"no HTTP":           "hello, this is not an answer\r\n",
		"no number":         "HTTP/1.1 abc\r\n\r\n",
		"cut header":        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n",
		"cut body":          "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell",
		"no body":           "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
		"length no number":  "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\nhello",
		"no length":         "HTTP/1.1 200 OK\r\n\r\nhello",
		"cut chunk":         "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
		"chunk no number":   "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nz\r\nhello\r\n",
		"chunks do not end": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
	} {
		if r, err := readReply(bufio.NewReader(strings.NewReader(answer))); err == nil {
			t.Errorf("%s: got %+v", name, r)
		}
	}
}
