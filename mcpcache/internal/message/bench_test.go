package message

import (
	"strings"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

const (
	legacyList = `{"jsonrpc":"2.0","id":17,"method":"tools/list","params":{"cursor":"b2Zmc2V0OjUw"}}`
	modernList = `{"jsonrpc":"2.0","id":"req-17","method":"tools/list","params":{"_meta":{` +
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientInfo":{"name":"inspector","version":"1.4.2"},` +
		`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}},"progressToken":4}}}`
)

func BenchmarkDecode(b *testing.B) {
	for name, body := range map[string]string{
		"legacy":  legacyList,
		"modern":  modernList,
		"call1MB": `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"a":"` + strings.Repeat("text ", 200_000) + `"}}}`,
		"keys1MB": `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + strings.Repeat(`"arguwents":1,`, 70_000) + `"z":1}}`,
	} {
		b.Run(name, func(b *testing.B) {
			data := []byte(body)
			var req Request
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				if err := Decode(data, &req); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkMemo decodes a request that was asked before, next to decoding it again.
func BenchmarkMemo(b *testing.B) {
	for name, body := range map[string]string{"legacy": legacyWithID("1000000000"), "modern": modernList} {
		b.Run(name, func(b *testing.B) {
			data := []byte(body)
			var m Templates
			var req Request
			for b.Loop() {
				if err := m.read(data, &req); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/decoded", func(b *testing.B) {
			data := []byte(body)
			var req Request
			for b.Loop() {
				if err := Decode(data, &req); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkAppendPrefix(b *testing.B) {
	dst := make([]byte, 0, 256)
	id := []byte(`"req-17"`)
	b.ReportAllocs()
	for b.Loop() {
		dst = AppendPrefix(dst[:0], id, 297*time.Second, true)
	}
}

func BenchmarkJoin(b *testing.B) {
	const perPage = 100
	var pages [][]byte
	for page := range 5 {
		pages = append(pages, []byte(toolPage(page*perPage, perPage, page < 4)))
	}
	b.Run("parse", func(b *testing.B) {
		b.SetBytes(int64(len(pages[0])))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := ParsePage(pages[0], revision.Tools); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("join", func(b *testing.B) {
		var parsed []*Page
		size := 0
		for _, p := range pages {
			size += len(p)
			page, err := ParsePage(p, revision.Tools)
			if err != nil {
				b.Fatal(err)
			}
			parsed = append(parsed, page)
		}
		b.SetBytes(int64(size))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := Join(revision.Tools, parsed); err != nil {
				b.Fatal(err)
			}
		}
	})
}
