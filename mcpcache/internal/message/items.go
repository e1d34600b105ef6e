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
	key := kind.ItemsKey()
	if key == "" {
		return nil
	}
	whole := io.MultiReader(strings.NewReader("{"), bytes.NewReader(data))
	dec := jsontext.NewDecoder(whole, jsontext.AllowDuplicateNames(true))
	if _, err := dec.ReadToken(); err != nil {
		return nil
	}
	for dec.PeekKind() == jsontext.KindString {
		name, err := dec.ReadToken()
		if err != nil {
			return nil
		}
		if name.String() == key && dec.PeekKind() == jsontext.KindBeginArray {
			return readItems(dec, data)
		}
		if dec.SkipValue() != nil {
			return nil
		}
	}
	return nil
}

// readItems reads the array that is next in dec, whose input is a brace and data.
func readItems(dec *jsontext.Decoder, data []byte) (items [][]byte) {
	if _, err := dec.ReadToken(); err != nil {
		return nil
	}
	for dec.PeekKind() == jsontext.KindBeginObject {
		item, err := dec.ReadValue()
		if err != nil {
			return nil
		}
		end := int(dec.InputOffset()) - len("{")
		items = append(items, data[end-len(item):end:end])
	}
	return items
}
