package snapshot

import (
	"bytes"
	"errors"
	"testing"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// FuzzDecode reads anything, as it is and with a seal that fits. What is read
// must be a list that Encode writes the same way again.
func FuzzDecode(f *testing.F) {
	e := entry(f, revision.Tools, tools)
	whole := encoded(f, e)
	f.Add(whole, []byte{})
	f.Add(whole[:len(whole)/2], []byte{})
	f.Add([]byte(`{"kind":"tools","revision":"2026-07-28","fetched":"2026-07-28T12:30:15Z"}`), e.Body.Bytes)
	f.Add([]byte(`{"kind":"tools","revision":"2026-07-28","never_fresh":true}`), []byte(`"tools":[],"nextCursor":""}}`))
	f.Add([]byte(`{"KIND":"tools","revision":"2026-07-28","public":true}`), []byte(`"tools":[{"name":"a"}],"cacheScope":"private"}}`))
	f.Add([]byte(`{"kind":"tools","revision":"2026-07-28","lifetime":-5,"as_of":"2026-07-28T12:30:15.000001Z"}`), []byte(`"tools":[]}}`))
	f.Fuzz(func(t *testing.T, head, list []byte) {
		for _, data := range [][]byte{head, Terms{}.seal(head, list)} {
			e, _, err := Decode(data, revision.V20260728, revision.Tools, later, Terms{})
			if err != nil {
				if e != nil || !errors.Is(err, errCorrupt) && !errors.Is(err, errForeign) {
					t.Fatalf("got %v, %v", e, err)
				}
				continue
			}
			if len(message.Items(e.Body.Bytes, revision.Tools)) != e.Body.Items || len(e.Body.Names()) != e.Body.Items {
				t.Fatalf("%d items, %d names in %s", e.Body.Items, len(e.Body.Names()), e.Body.Bytes)
			}
			again, _, err := Decode(encoded(t, e), e.Revision, e.Kind, later, Terms{})
			if err != nil {
				t.Fatalf("reading %s again: %v", data, err)
			}
			if !bytes.Equal(again.Body.Bytes, e.Body.Bytes) || again.Partition != e.Partition ||
				!again.Fetched.Equal(e.Fetched) || again.Lifetime != e.Lifetime {
				t.Fatalf("got %+v, then %+v", e, again)
			}
		}
	})
}
