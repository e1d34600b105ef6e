package caddyfile

import (
	"encoding/binary"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddy-mcp/mcp-cache/mcpcache"
)

// freeWord is the word of a vocabulary that stands for the fuzzer's own text.
const freeWord = "\x00"

// vocabulary holds all words of the golden files, sorted, but for imports,
// which would read other files, and words that are cut at a quoted space.
func vocabulary(cases []golden) []string {
	words := map[string]bool{freeWord: true, "\n": true}
	for _, c := range cases {
		for word := range strings.FieldsSeq(c.input) {
			if word != "import" && !strings.Contains(word, `"`) {
				words[word] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(words))
}

// encode is the inverse of write, but for words that are not in the vocabulary.
func encode(words []string, input string) []byte {
	var program []byte
	for line := range strings.Lines(input) {
		for _, word := range append(strings.Fields(line), "\n") {
			if i, found := slices.BinarySearch(words, word); found {
				program = binary.BigEndian.AppendUint16(program, uint16(i))
			}
		}
	}
	return program
}

// write turns a program, two bytes a word, into a Caddyfile.
func write(words []string, program []byte, free string) string {
	var text strings.Builder
	for ; len(program) >= 2; program = program[2:] {
		word := words[int(binary.BigEndian.Uint16(program))%len(words)]
		if word == freeWord {
			word = `"` + strings.ReplaceAll(free, `"`, `\"`) + `"`
		}
		text.WriteString(word)
		if word != "\n" {
			text.WriteByte(' ')
		}
	}
	return text.String()
}

// FuzzDirective adapts Caddyfiles that are put together from the words of the
// golden files and from free text: there is an error, or a configuration that
// the handler takes back.
func FuzzDirective(f *testing.F) {
	var cases []golden
	for _, file := range goldenFiles(f) {
		cases = append(cases, readGolden(f, file)...)
	}
	words := vocabulary(cases)
	for _, c := range cases {
		f.Add(encode(words, c.input), "")
	}
	for name := range directiveOptions() {
		for _, free := range []string{"", "-1", "1e9", "http://u:p@h:1/p?q#f", "{", "}", "\n", strconv.Itoa(1 << 62)} {
			f.Add(encode(words, ":8080 {\nmcp_cache http://127.0.0.1:3001 {\n"+name+" "+freeWord+"\n}\n}\n"), free)
			f.Add(encode(words, ":8080 {\nmcp_cache "+freeWord+" {\n"+name+"\n}\n}\n"), free)
		}
	}
	adapter := caddyconfig.GetAdapter("caddyfile")
	f.Fuzz(func(t *testing.T, program []byte, free string) {
		if len(program) > 400 || len(free) > 400 || strings.Contains(free, "import") || strings.Contains(free, "{$") {
			t.Skip("too long, or would read files or the environment")
		}
		text := write(words, program, free)
		config, _, err := adapter.Adapt([]byte(text), nil)
		if err != nil {
			return
		}
		for _, handler := range handlersIn(t, config) {
			checkAccepted(t, text, handler)
		}
	})
}

// handlersIn returns every mcp_cache handler of a configuration.
func handlersIn(t *testing.T, config []byte) []map[string]json.RawMessage {
	t.Helper()
	var found []map[string]json.RawMessage
	var object map[string]json.RawMessage
	var list []json.RawMessage
	if json.Unmarshal(config, &object) == nil {
		if string(object["handler"]) == `"mcp_cache"` {
			found = append(found, object)
		}
		list = slices.Collect(maps.Values(object))
	} else if json.Unmarshal(config, &list) != nil {
		return nil
	}
	for _, value := range list {
		found = append(found, handlersIn(t, value)...)
	}
	return found
}

// unmarshalModule decodes a module of Caddy's JSON as strictly as Caddy does.
func unmarshalModule(t *testing.T, object map[string]json.RawMessage, into any) {
	t.Helper()
	delete(object, "handler")
	encoded, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	if err := caddy.StrictUnmarshalJSON(encoded, into); err != nil {
		t.Fatalf("%v in %s", err, encoded)
	}
}

// checkAccepted makes sure that the handler takes an accepted configuration
// back and that what must not be accepted was not.
func checkAccepted(t *testing.T, text string, object map[string]json.RawMessage) {
	t.Helper()
	var handler mcpcache.Handler
	unmarshalModule(t, object, &handler)
	if len(handler.Servers) > 0 {
		if err := mcpcache.CheckServers(handler.Servers); err != nil {
			t.Errorf("%v of\n%s", err, text)
		}
		for _, s := range handler.Servers {
			checkHandler(t, text, &mcpcache.Handler{ServerOptions: s.ServerOptions, SharedOptions: s.SharedOptions})
		}
		return
	}
	checkHandler(t, text, &handler)
}

// checkHandler is checkAccepted of what is in front of one server.
func checkHandler(t *testing.T, text string, handler *mcpcache.Handler) {
	t.Helper()
	var inner map[string]json.RawMessage
	if err := json.Unmarshal(handler.UpstreamRaw, &inner); err != nil {
		t.Fatalf("no upstream: %v of\n%s", err, text)
	}
	var proxy reverseproxy.Handler
	unmarshalModule(t, inner, &proxy)
	if len(proxy.Upstreams) == 0 && proxy.DynamicUpstreamsRaw == nil {
		t.Errorf("no upstream of\n%s", text)
	}
	if handler.Endpoint != "" && !isPath(handler.Endpoint) {
		t.Errorf("endpoint %q of\n%s", handler.Endpoint, text)
	}
	if handler.Name != "" && !mcpcache.IsName(handler.Name) {
		t.Errorf("name %q of\n%s", handler.Name, text)
	}
	if handler.TTL < 0 || handler.MaxTTL < 0 || handler.AdmitFor < 0 || handler.Refresh < 0 ||
		handler.Gate != nil && *handler.Gate < 0 || handler.StaleIfError != nil && *handler.StaleIfError < 0 ||
		handler.MaxRequest < 0 || handler.MaxCall < 0 || handler.MaxList < 0 || handler.MaxPages < 0 || handler.Memory < 0 {
		t.Errorf("negative value of\n%s", text)
	}
	for _, rule := range handler.Rules {
		if err := rule.Check(); err != nil {
			t.Errorf("%v of\n%s", err, text)
		}
	}
}
