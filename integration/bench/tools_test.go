package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"reflect"
	"testing"
)

func TestMakeTools(t *testing.T) {
	for n, size := range map[int][2]int{5: {1800, 3200}, 50: {32_000, 44_000}, 500: {320_000, 440_000}} {
		tools := makeTools(n, 1)
		list := toolList(tools)
		if len(list) < size[0] || len(list) > size[1] {
			t.Errorf("%d tools have %d bytes, want from %d to %d", n, len(list), size[0], size[1])
		}
		if !reflect.DeepEqual(tools, makeTools(n, 1)) || reflect.DeepEqual(tools, makeTools(n, 2)) {
			t.Errorf("%d tools do not depend on the seed alone", n)
		}
		var result struct{ Tools []tool }
		if err := json.Unmarshal([]byte("{"+string(list)+"}"), &result); err != nil || len(result.Tools) != n {
			t.Errorf("list of %d tools has %d, error %v", n, len(result.Tools), err)
		}
	}
}

func TestToolsCompressLikeText(t *testing.T) {
	list := toolList(makeTools(500, 1))
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Write(list)
	w.Close()
	if ratio := float64(b.Len()) / float64(len(list)); ratio < 0.2 || ratio > 0.35 {
		t.Errorf("compressed to %.2f", ratio)
	}
}

func TestCallerLists(t *testing.T) {
	for _, kind := range []string{sameLists, sharedTools, differentLists} {
		lists, err := newCallerLists(kind)
		if err != nil {
			t.Fatal(err)
		}
		known := make(map[string]bool)
		for _, one := range lists.base {
			known[one.Description] = true
		}
		first := lists.of("Bearer 1000000000")
		seen := map[string]bool{string(first): true}
		for _, credential := range []string{"Bearer 1000000001", "Bearer 1000002000", "Bearer 1000009999"} {
			list := lists.of(credential)
			seen[string(list)] = true
			var result struct{ Tools []tool }
			if err := json.Unmarshal([]byte("{"+string(list)+"}"), &result); err != nil || len(result.Tools) != callerTools {
				t.Fatalf("%s lists: %d tools, error %v", kind, len(result.Tools), err)
			}
			if got := known[result.Tools[9].Description]; got != (kind != differentLists) {
				t.Errorf("%s lists: a tool is one of all: %v", kind, got)
			}
		}
		if want := map[string]int{sameLists: 1, sharedTools: 4, differentLists: 4}[kind]; len(seen) != want {
			t.Errorf("%s lists: %d different ones of 4, want %d", kind, len(seen), want)
		}
		if string(lists.of("")) != string(lists.same) {
			t.Errorf("%s lists: callers without a credential do not have the common list", kind)
		}
	}
	if _, err := newCallerLists("other"); err == nil {
		t.Error("an unknown kind is no error")
	}
}
