package mcpcache

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
)

func updateOf(uri string) string {
	return fmt.Sprintf("event: message\ndata: {\"method\":\"notifications\\/resources\\/updated\",\"params\":{\"uri\":%q}}\n\n", uri)
}

func TestUpdatedURIs(t *testing.T) {
	many := strings.Repeat(updateOf("test://a"), maxNamed)
	for name, c := range map[string]struct {
		events string
		want   []string
		ok     bool
	}{
		"one":              {updateOf("test://a"), []string{"test://a"}, true},
		"two":              {updateOf("test://a") + updateOf("test://b"), []string{"test://a", "test://b"}, true},
		"among others":     {"id: 1\ndata:\n\n" + noticeOf("tools/list_changed") + updateOf("a:b"), []string{"a:b"}, true},
		"only mentioned":   {"data: {\"result\":\"notifications/resources/updated\"}\n\n", nil, true},
		"no URI":           {"data: {\"method\":\"notifications/resources/updated\",\"params\":{}}\n\n", nil, false},
		"no text":          {"data: {\"method\":\"notifications/resources/updated\",\"params\":{\"uri\":1}}\n\n", nil, false},
		"not JSON":         {"data: {\"method\":\"notifications/resources/updated\"\n\n", nil, false},
		"a batch":          {"data: [{\"method\":\"notifications/resources/updated\",\"params\":{\"uri\":\"a:b\"}}]\n\n", nil, false},
		"as many as named": {many, slices.Repeat([]string{"test://a"}, maxNamed), true},
		"one more":         {many + updateOf("test://b"), nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			uris, ok := updatedURIs([]byte(c.events))
			if ok != c.ok || ok && !slices.Equal(uris, c.want) {
				t.Errorf("got %q, %t, want %q, %t", uris, ok, c.want, c.ok)
			}
		})
	}
}

// TestUpdateOfOneResource sends notices in pieces: in one piece a notice
// concerns its resource, otherwise all resources.
func TestUpdateOfOneResource(t *testing.T) {
	read := func(uri string) *http.Request {
		return withName(modernRequest("resources/read", fmt.Sprintf(`"uri":%q`, uri)), uri)
	}
	whole := updateOf("test://a")
	for name, c := range map[string]struct {
		pieces []string
		all    bool
	}{
		"one piece":            {[]string{whole}, false},
		"after another":        {[]string{noticeOf("progress"), whole}, false},
		"lines end otherwise":  {[]string{strings.ReplaceAll(whole, "\n", "\r\n")}, false},
		"split in the method":  {[]string{whole[:40], whole[40:]}, true},
		"split before the end": {[]string{whole[:len(whole)-1], "\n"}, true},
		"begun earlier":        {[]string{"event: message\n", strings.TrimPrefix(whole, "event: message\n")}, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFace(t, &Handler{Gate: duration(0)})
			f.letIn(t, "Bearer a")
			for _, uri := range []string{"test://a", "test://b"} {
				f.as(t, "Bearer a", read(uri), resultOf(`"contents":[],"ttlMs":60000`))
			}
			f.as(t, "Bearer b", modernRequest("subscriptions/listen", ""), func(w http.ResponseWriter, _ *http.Request) error {
				w.Header().Set("Content-Type", "text/event-stream")
				for _, piece := range c.pieces {
					if _, err := io.WriteString(w, piece); err != nil {
						return err
					}
				}
				return nil
			})
			for uri, outdated := range map[string]bool{"test://a": true, "test://b": c.all} {
				want := http.StatusOK
				if outdated {
					want = http.StatusTeapot
				}
				if w := f.as(t, "Bearer a", read(uri), refusing); w.Code != want {
					t.Errorf("%s gave %d, want %d", uri, w.Code, want)
				}
			}
		})
	}
}
