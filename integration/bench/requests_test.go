package main

import (
	"strings"
	"testing"
	"time"
)

// TestRequests counts what reaches a server and a program while their clients list and call once.
func TestRequests(t *testing.T) {
	var table strings.Builder
	o := &options{requests: 50 * time.Millisecond, only: []string{goSDKSessionsRole, programRole}, check: true}
	if err := countRequests(t.Context(), o, 0, &table); err != nil {
		t.Fatal(err)
	}
	for _, row := range []string{"| go-sdk | direct | 1 | 1 | 1 | 0 |", "| go-sdk | **`mcp_cache`** | 2 | 1 |", "| a program of go-sdk | direct | 0 | 1 | 1 | 0 |"} {
		if !strings.Contains(table.String(), row) {
			t.Errorf("%s is missing in\n%s", row, table.String())
		}
	}
}

// TestTooManyRequests finds what the cache must not add.
func TestTooManyRequests(t *testing.T) {
	reaches := func(methods ...string) *way {
		q := &requests{server: "s", byMethod: make(map[string]int)}
		for _, method := range methods {
			q.add(method)
		}
		return &way{requests: q}
	}
	direct := reaches("initialize", "tools/call", "tools/list")
	if err := reaches("initialize", "initialize", "tools/call", "tools/list", "tools/list", "prompts/list").tooMany(direct, time.Minute); err != nil {
		t.Error(err)
	}
	for want, many := range map[string]*way{
		"2 calls, at most 1":      reaches("tools/call", "tools/call"),
		"3 sessions, at most 2":   reaches("initialize", "initialize", "initialize"),
		"5 prompts/list, at most": reaches("prompts/list", "prompts/list", "prompts/list", "prompts/list", "prompts/list"),
	} {
		if err := many.tooMany(direct, time.Minute); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
