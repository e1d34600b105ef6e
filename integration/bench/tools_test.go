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
