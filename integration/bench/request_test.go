package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
)

// parsed reads a request as a server does.
func parsed(t *testing.T, r Request) (http.Header, map[string]any) {
	t.Helper()
	in := bufio.NewReader(bytes.NewReader(r.Raw))
	h, err := http.ReadRequest(in)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(h.Body)
	if err != nil {
		t.Fatal(err)
	}
	if rest, _ := io.ReadAll(in); len(rest) > 0 {
		t.Errorf("after the request: %q", rest)
	}
	var message map[string]any
	if err := json.Unmarshal(body, &message); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return h.Header, message
}

func TestLegacyRequest(t *testing.T) {
	r := caller{legacy, "s"}.request("host:1", "tools/list", "", "", "Accept-Encoding: gzip")
	header, message := parsed(t, r)
	for name, want := range map[string]string{
		"Mcp-Session-Id": "s", "Mcp-Protocol-Version": legacy, "Accept-Encoding": "gzip", "Mcp-Method": "",
	} {
		if got := header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if _, there := message["params"]; there || message["method"] != "tools/list" {
		t.Errorf("got %v", message)
	}
	opening, _ := parsed(t, caller{revision: legacy}.request("host:1", "initialize", "", ""))
	if got := opening.Get("Mcp-Protocol-Version"); got != "" {
		t.Errorf("initialize has the header Mcp-Protocol-Version: %s", got)
	}
}

func TestModernRequest(t *testing.T) {
	header, message := parsed(t, caller{revision: modern}.request("host:1", "tools/call", "t", `"name":"t"`))
	if header.Get("Mcp-Method") != "tools/call" || header.Get("Mcp-Name") != "t" || header.Get("Mcp-Protocol-Version") != modern {
		t.Errorf("header is %v", header)
	}
	params := message["params"].(map[string]any)
	meta := params["_meta"].(map[string]any)
	if params["name"] != "t" || meta["io.modelcontextprotocol/protocolVersion"] != modern ||
		meta["io.modelcontextprotocol/clientCapabilities"] == nil {
		t.Errorf("params are %v", params)
	}
}

func TestNotification(t *testing.T) {
	_, message := parsed(t, caller{legacy, "s"}.request("h", "notifications/initialized", "", "").notification())
	if _, there := message["id"]; there || message["method"] != "notifications/initialized" {
		t.Errorf("got %v", message)
	}
}

func TestNextCarries(t *testing.T) {
	original := caller{revision: legacy}.request("h", "tools/list", "", "")
	r := original.clone(0)
	copy(r.Raw[r.ID:], "1000000999")
	r.next()
	if !bytes.Contains(r.Raw, []byte(`"id":1000001000,`)) {
		t.Errorf("got %s", r.Raw)
	}
	if !strings.Contains(string(original.Raw), firstID) {
		t.Error("a copy has changed the original")
	}
}

func TestCallerRequestCountsCredentials(t *testing.T) {
	r := callerRequest("h").clone(0)
	r.next()
	header, message := parsed(t, r)
	if got := header.Get("Authorization"); got != "Bearer 1000000001" || message["id"] != 1e9 {
		t.Errorf("credential %q, id %v", got, message["id"])
	}
}
