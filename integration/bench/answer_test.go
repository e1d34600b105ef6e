package main

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"testing"

	"github.com/klauspost/compress/zstd"
)

func TestDecoded(t *testing.T) {
	const text = "hello, hello, hello"
	encoders := map[string]func(io.Writer) io.WriteCloser{
		"gzip": func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) },
		"zstd": func(w io.Writer) io.WriteCloser {
			e, err := zstd.NewWriter(w)
			if err != nil {
				t.Fatal(err)
			}
			return e
		},
	}
	for name, encoder := range encoders {
		var b bytes.Buffer
		e := encoder(&b)
		io.WriteString(e, text)
		e.Close()
		res := &http.Response{Header: http.Header{"Content-Encoding": {name}}, Body: io.NopCloser(&b)}
		if got, err := decoded(res); err != nil || string(got) != text {
			t.Errorf("%s: got %q and error %v", name, got, err)
		}
	}
	res := &http.Response{Header: http.Header{"Content-Encoding": {"br"}}, Body: http.NoBody}
	if _, err := decoded(res); err == nil {
		t.Error("an encoding that is not known is no error")
	}
}

func TestIsHit(t *testing.T) {
	a := &answer{header: http.Header{"Cache-Status": {"mcp_cache; hit; ttl=3"}, "Content-Encoding": {"zstd"}}}
	if !a.isHit() || !isHit("zstd")(a) || isHit("")(a) || isHit("")(nil) {
		t.Error("a hit in zstd is not taken for one, or for another")
	}
	a.header.Set("Cache-Status", "mcp_cache; fwd=uri-miss; stored")
	if a.isHit() {
		t.Error("a miss is taken for a hit")
	}
}

func TestMessage(t *testing.T) {
	const list = `{"result":{"tools":[{},{}]}}`
	for name, a := range map[string]*answer{
		"JSON":   {body: []byte(list)},
		"events": {header: http.Header{"Content-Type": {"text/event-stream"}}, body: []byte("data: {}\n\nevent: message\ndata: " + list + "\n\n")},
	} {
		if n, err := a.tools(); n != 2 || err != nil {
			t.Errorf("%s: %d tools, error %v", name, n, err)
		}
	}
	if _, err := (&answer{body: []byte("no JSON")}).tools(); err == nil {
		t.Error("what is no JSON is a list")
	}
}
