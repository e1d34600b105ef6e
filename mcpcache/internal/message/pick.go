package message

import (
	"bytes"
	"crypto/sha256"
	"iter"
	"slices"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// Pick makes a list's body with those of its items that keep chooses, each byte for
// byte, all else as written. The bytes are given besides the body, as it may not have
// them itself: what is before the items, these, and what is after them. They are copied.
// If all items are kept the body is the same, so are its digests.
func Pick(k revision.Kind, of *Body, before []byte, items iter.Seq[[]byte], after []byte, keep func([]byte) bool) *Body {
	var kept [][]byte
	for item := range items {
		if keep(item) {
			kept = append(kept, item)
		}
	}
	b := Compose(k, before, kept, after)
	b.HasTTL, b.NextCursor, b.Scope = of.HasTTL, of.NextCursor, of.Scope
	return b
}

// Compose makes a list's body of its items and of what is before and after them, as
// [Body.Ends] has it. All are copied.
func Compose(k revision.Kind, before []byte, items [][]byte, after []byte) *Body {
	size := len(before) + len(after)
	for _, item := range items {
		size += len(item) + len(",")
	}
	b := &Body{Items: len(items), kind: k, first: len(before), lengths: make([]uint32, 0, len(items))}
	b.Bytes = append(make([]byte, 0, size), before...)
	for i, item := range items {
		if i > 0 {
			b.Bytes = append(b.Bytes, ',')
		}
		b.Bytes = append(b.Bytes, item...)
		b.lengths = append(b.lengths, uint32(len(item)))
	}
	b.ItemsDigest = sha256.Sum256(b.Bytes[b.first:])
	b.Bytes = append(b.Bytes, after...)
	b.Digest = sha256.Sum256(b.Bytes)
	return b
}

// Cut makes a page of a list's body: of its items size from the one of number from on, each
// byte for byte, and all else as written. before, items and after are as for [Pick]. next is
// the cursor of the next page, a raw JSON string; nil: this is the last one.
func Cut(k revision.Kind, of *Body, before []byte, items iter.Seq[[]byte], after []byte, from, size int, next []byte) *Body {
	if next != nil {
		end := len("]") // of the items
		after = slices.Concat(after[:end], []byte(`,"nextCursor":`), next, after[end:])
	}
	number := -1
	b := Pick(k, of, before, items, after, func([]byte) bool {
		number++
		return from <= number && number < from+size
	})
	b.NextCursor = next
	return b
}

// OtherLists reports whether the result of a list of kind k, of which before and after
// are what is around its items, may have a list of another kind in it: no rule has been
// asked about the items of that.
func OtherLists(k revision.Kind, before, after []byte) bool {
	result := bytes.Join([][]byte{[]byte("{"), before, bytes.TrimSuffix(after, []byte("}"))}, nil)
	found := false
	err := eachMember(result, resultKeys, func(key int, _, _ []byte) error {
		found = found || key != unknown && resultKinds[key] != k && resultKinds[key] != revision.Reads
		return nil
	})
	return found || err != nil
}
