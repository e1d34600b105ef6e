package mcpcache

import (
	"fmt"
	"sync"
	"testing"
)

// TestHitTexts shows that a text is used again for the same hit only.
func TestHitTexts(t *testing.T) {
	var texts hitTexts
	kept := newHitText([]byte("cache; hit; ttl=7"), 7, 1000)
	if kept.status != "cache; hit; ttl=7" || kept.length != "1000" {
		t.Fatalf("got %+v", kept)
	}
	if texts.load(7, 1000) != nil {
		t.Error("there is a text before any is kept")
	}
	texts.store(kept)
	if texts.load(7, 1000) != kept {
		t.Error("the text is not used again")
	}
	for _, other := range []struct {
		seconds int64
		size    int
	}{{6, 1000}, {8, 1000}, {7, 1001}, {7, 1000 + len(texts)}} {
		if texts.load(other.seconds, other.size) != nil {
			t.Errorf("it is used for %+v", other)
		}
	}
	texts.store(newHitText(nil, 7, 1000+len(texts)))
	if texts.load(7, 1000) != nil {
		t.Error("two texts are in one place")
	}
}

func TestHitTextsAreConcurrent(t *testing.T) {
	var texts hitTexts
	var running sync.WaitGroup
	for range 8 {
		running.Go(func() {
			for i := range 2000 {
				seconds, size := int64(i%3), i%40
				text := texts.load(seconds, size)
				if text == nil {
					text = newHitText(fmt.Appendf(nil, "ttl=%d", seconds), seconds, size)
					texts.store(text)
				}
				if text.status != fmt.Sprintf("ttl=%d", seconds) || text.length != fmt.Sprint(size) {
					t.Errorf("%d seconds, %d bytes: got %+v", seconds, size, text)
				}
			}
		})
	}
	running.Wait()
}
