package inbound

import (
	"net/http"
	"testing"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

func TestAccept(t *testing.T) {
	const json, sse = "application/json", "text/event-stream"
	for name, c := range map[string]struct {
		accept     []string
		stream, ok bool
	}{
		"both":                   {accept: []string{json + ", " + sse}, ok: true},
		"the other order":        {accept: []string{sse + "," + json}, ok: true},
		"two lines":              {accept: []string{sse, json}},
		"the same twice":         {accept: []string{UsualAccept, UsualAccept}},
		"odd case and space":     {accept: []string{" Application/JSON ,\tTEXT/Event-Stream "}, ok: true},
		"and more":               {accept: []string{"text/html, " + json + ", " + sse + ", */*;q=0.1"}, ok: true},
		"rather a stream":        {accept: []string{json + ";q=0.5, " + sse}, stream: true, ok: true},
		"rather JSON":            {accept: []string{json + ", " + sse + ";q=0.9"}, ok: true},
		"weights with space":     {accept: []string{json + " ; q=0.1 , " + sse + " ;Q=0.2"}, stream: true, ok: true},
		"weight of three digits": {accept: []string{json + ";q=0.001, " + sse + ";q=0.002"}, stream: true, ok: true},
		"other parameter":        {accept: []string{json + ";charset=utf-8;q=0.3, " + sse + ";v=1"}, stream: true, ok: true},
		"nothing":                {},
		"empty":                  {accept: []string{""}},
		"JSON only":              {accept: []string{json}},
		"stream only":            {accept: []string{sse}},
		"everything":             {accept: []string{"*/*"}},
		"wildcards":              {accept: []string{"application/*, text/*"}},
		"JSON and a wildcard":    {accept: []string{json + ", text/*"}},
		"no JSON":                {accept: []string{json + ";q=0, " + sse}},
		"no stream":              {accept: []string{json + ", " + sse + ";q=0.0"}},
		"bad weight":             {accept: []string{json + ";q=high, " + sse}},
		"weight above 1":         {accept: []string{json + ";q=2, " + sse}},
		"weight below 0":         {accept: []string{json + ";q=-1, " + sse}},
		"weight is no number":    {accept: []string{json + ";q=NaN, " + sse}},
		"other type":             {accept: []string{"application/jsonl, " + sse}},
		"no comma":               {accept: []string{json + " " + sse}},
	} {
		t.Run(name, func(t *testing.T) {
			stream, ok := Accepts(c.accept)
			if ok != c.ok || ok && stream != c.stream {
				t.Errorf("got stream %v, both %v; want %v, %v", stream, ok, c.stream, c.ok)
			}
		})
	}
}

func TestPlainJSON(t *testing.T) {
	for name, c := range map[string]struct {
		header http.Header
		want   bool
	}{
		"JSON":              {http.Header{"Content-Type": {"application/json"}}, true},
		"other case":        {http.Header{"Content-Type": {"Application/JSON"}}, true},
		"UTF-8":             {http.Header{"Content-Type": {"application/json; charset=utf-8"}}, true},
		"quoted":            {http.Header{"Content-Type": {`application/json;charset="UTF-8"`}}, true},
		"other parameter":   {http.Header{"Content-Type": {"application/json; v=1"}}, true},
		"no type":           {http.Header{}, false},
		"other type":        {http.Header{"Content-Type": {"text/plain"}}, false},
		"suffix":            {http.Header{"Content-Type": {"application/x+json"}}, false},
		"other charset":     {http.Header{"Content-Type": {"application/json; charset=utf-16"}}, false},
		"broken parameter":  {http.Header{"Content-Type": {"application/json; charset"}}, false},
		"same charset, two": {http.Header{"Content-Type": {"application/json; charset=utf-8; charset=utf-16"}}, false},
		"two types":         {http.Header{"Content-Type": {"application/json", "application/json"}}, false},
		"compressed":        {http.Header{"Content-Type": {"application/json"}, "Content-Encoding": {"gzip"}}, false},
		"identity":          {http.Header{"Content-Type": {"application/json"}, "Content-Encoding": {"identity"}}, false},
	} {
		if got := PlainJSON(c.header); got != c.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

func TestQuotes(t *testing.T) {
	for name, c := range map[string]struct {
		raw, header string
		want        bool
	}{
		"same":         {`"file:///a"`, "file:///a", true},
		"other":        {`"file:///a"`, "file:///b", false},
		"other case":   {`"file:///A"`, "file:///a", false},
		"longer":       {`"file:///ab"`, "file:///a", false},
		"escaped":      {`"file:\/\/\/a"`, `file:\/\/\/a`, false},
		"escaped, not": {`"file:\/\/\/a"`, `file:///a`, false},
		"encoded":      {`"=?base64?YQ==?="`, "=?base64?YQ==?=", false},
		"empty":        {`""`, "", true},
	} {
		if got := Quotes([]byte(c.raw), c.header); got != c.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

func TestLegacyRevision(t *testing.T) {
	for name, c := range map[string]struct {
		named []string
		want  revision.Revision
		ok    bool
	}{
		"none":              {nil, revision.V20250326, true},
		"one":               {[]string{"2025-06-18"}, revision.V20250618, true},
		"modern":            {named: []string{"2026-07-28"}},
		"not of HTTP":       {named: []string{"2024-11-05"}},
		"unknown":           {named: []string{"2099-01-01"}},
		"empty":             {named: []string{""}},
		"several":           {named: []string{"2025-06-18", "2025-06-18"}},
		"several, a modern": {named: []string{"2025-06-18", "2026-07-28"}},
	} {
		got, ok := LegacyRevision(http.Header{"Mcp-Protocol-Version": c.named})
		if ok != c.ok || ok && got != c.want {
			t.Errorf("%s: got %v, %v; want %v, %v", name, got, ok, c.want, c.ok)
		}
	}
}

// TestNames holds what a header says that a message names against the message. A request in front of one server may have
// no such header.
func TestNames(t *testing.T) {
	for name, c := range map[string]struct {
		said            []string
		is, contradicts bool
	}{
		"the same":             {said: []string{"tool"}, is: true},
		"in base64":            {said: []string{"=?base64?dG9vbA==?="}, is: true},
		"none":                 {},
		"another":              {said: []string{"other"}, contradicts: true},
		"another, in base64":   {said: []string{"=?base64?b3RoZXI=?="}, contradicts: true},
		"broken base64":        {said: []string{"=?base64?dG9vbA?="}, contradicts: true},
		"another encoded word": {said: []string{"=?utf-8?q?tool?="}, contradicts: true},
		"the same twice":       {said: []string{"tool", "tool"}},
		"two":                  {said: []string{"tool", "other"}, contradicts: true},
		"empty":                {said: []string{""}, contradicts: true},
	} {
		h := http.Header{"Mcp-Name": c.said}
		found := []message.Naming{{Method: "tools/call", Items: []message.Named{{Kind: revision.Tools, Name: "tool"}}}}
		if got := NameIs(h, "tool"); got != c.is {
			t.Errorf("%s: got %v", name, got)
		}
		if got := Contradicts(h, found); got != c.contradicts {
			t.Errorf("%s: contradicts %v", name, got)
		}
		if got := Contradicts(h, append(found, found[0])); got != (c.said != nil) {
			t.Errorf("%s, of two messages: contradicts %v", name, got)
		}
	}
	if !NameIs(http.Header{"Mcp-Name": {" tool\t"}}, "tool") {
		t.Error("white space around a value is taken for a part of it")
	}
	task := []message.Naming{{Method: "tasks/get", Task: "tool"}}
	for method, contradicts := range map[string]bool{"tasks/get": false, "tasks/list": true} {
		if got := Contradicts(http.Header{"Mcp-Name": {"tool"}, "Mcp-Method": {method}}, task); got != contradicts {
			t.Errorf("%s of a task: contradicts %v", method, got)
		}
	}
}
