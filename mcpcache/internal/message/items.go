package message

import (
	"bytes"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// Items returns the raw items of a [Body]'s Bytes, in order; none for a kind
// that is not a list.
func Items(data []byte, kind revision.Kind) [][]byte {
	items, _ := findItems(data, kind)
	return items
}

// Split takes a [Body]'s Bytes apart: what is before the first item, the items,
// which have a comma between them, and what is after the last one. It reports
// false if the bytes are not of that form, or there are no items.
func Split(data []byte, kind revision.Kind) (before []byte, items [][]byte, after []byte, ok bool) {
	items, end := findItems(data, kind)
	if len(items) == 0 {
		return nil, nil, nil, false
	}
	start := end - len(items) + 1
	for _, item := range items {
		start -= len(item)
	}
	if start < 0 {
		return nil, nil, nil, false
	}
	at := start
	for i, item := range items {
		if i > 0 {
			at += len(",")
		}
		if !bytes.HasPrefix(data[at:], item) || i > 0 && data[at-1] != ',' {
			return nil, nil, nil, false
		}
		at += len(item)
	}
	return data[:start:start], items, data[end:], true
}

// findItems returns the items and where the last one ends.
func findItems(data []byte, kind revision.Kind) (items [][]byte, end int) {
	key := kind.ItemsKey()
	if key == "" {
		return nil, 0
	}
	whole := io.MultiReader(strings.NewReader("{"), bytes.NewReader(data))
	dec := jsontext.NewDecoder(whole, jsontext.AllowDuplicateNames(true))
	if _, err := dec.ReadToken(); err != nil {
		return nil, 0
	}
	for dec.PeekKind() == jsontext.KindString {
		name, err := dec.ReadToken()
		if err != nil {
			return nil, 0
		}
		if name.String() == key && dec.PeekKind() == jsontext.KindBeginArray {
			return readItems(dec, data)
		}
		if dec.SkipValue() != nil {
			return nil, 0
		}
	}
	return nil, 0
}

// readItems reads the array that is next in dec, whose input is a brace and data.
func readItems(dec *jsontext.Decoder, data []byte) (items [][]byte, end int) {
	if _, err := dec.ReadToken(); err != nil {
		return nil, 0
	}
	for dec.PeekKind() == jsontext.KindBeginObject {
		item, err := dec.ReadValue()
		if err != nil {
			return nil, 0
		}
		end = int(dec.InputOffset()) - len("{")
		items = append(items, data[end-len(item):end:end])
	}
	return items, end
}
