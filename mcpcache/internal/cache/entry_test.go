package cache

import (
	"bytes"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

func TestQuestionsHaveKeysOfTheirOwn(t *testing.T) {
	var partitions = []Partition{Anonymous, Public, FeedOnly, contextNumber(1), contextNumber(2), ContextOf([16]byte{}, Asked{})}
	var questions []Question
	for _, r := range revision.All() {
		for k := range revision.Kind(revision.NumKinds) {
			for _, p := range partitions {
				for _, v := range []Variant{{}, {1}, {7: 1}} {
					for _, d := range [][]byte{nil, {}, {0}, {1}, []byte(`""`), []byte(`"a"`), []byte(`"ab"`)} {
						questions = append(questions, Question{r, k, p, v, d, viewHash{}}, Question{r, k, p, v, d, viewHash{1}})
					}
				}
			}
		}
	}
	seen := make(map[string]Question)
	for _, q := range questions {
		key := string(appendKey(nil, q))
		if other, twice := seen[key]; twice {
			t.Fatalf("same key for %+v and %+v", q, other)
		}
		seen[key] = q
	}
	c := newCache(t, 64<<20)
	for i, q := range questions {
		e := c.entry(q, "", 0)
		if !e.answers(q) {
			t.Fatalf("entry does not answer its own question %+v", q)
		}
		if other := questions[(i+1)%len(questions)]; e.answers(other) {
			t.Fatalf("entry of %+v answers %+v", q, other)
		}
	}
}

// An empty cursor is a page of its own, not the whole list.
func TestEmptyDetailIsNotAbsent(t *testing.T) {
	c := newCache(t, 1<<20)
	whole, page := toolsOf(Anonymous), toolsOf(Anonymous)
	page.Detail = []byte{}
	c.Put(c.entry(whole, "whole", 0))
	if got := c.Get(page); got != nil {
		t.Errorf("an empty detail found %s", got.Body.Bytes)
	}
	c.Put(c.entry(page, "page", 0))
	for want, q := range map[string]Question{"whole": whole, "page": page} {
		if got := c.Get(q); got == nil || !bytes.Equal(got.Body.Bytes, []byte(want)) {
			t.Errorf("got %v, want %s", got, want)
		}
	}
}

func TestAgeAndWhatIsLeft(t *testing.T) {
	e := &Entry{Fetched: start, Lifetime: time.Minute}
	for _, tt := range []struct {
		at, age, left time.Duration
	}{
		{0, 0, time.Minute},
		{-time.Hour, 0, time.Minute}, // the clock went back
		{time.Second, time.Second, 59 * time.Second},
		{time.Minute, time.Minute, 0},
		{2 * time.Minute, 2 * time.Minute, -time.Minute},
	} {
		now := start.Add(tt.at)
		if age, left := e.Age(now), e.Left(now); age != tt.age || left != tt.left {
			t.Errorf("after %v: age %v, left %v, want %v, %v", tt.at, age, left, tt.age, tt.left)
		}
	}
}

func TestPartitionsAdmit(t *testing.T) {
	a, b := contextNumber(1), contextNumber(2)
	for _, tt := range []struct {
		name          string
		owner, caller Partition
		want          bool
	}{
		{"public to anonymous", Public, Anonymous, true},
		{"public to a context", Public, a, true},
		{"context to itself", a, contextNumber(1), true},
		{"context to another", a, b, false},
		{"context to anonymous", a, Anonymous, false},
		{"anonymous to anonymous", Anonymous, Anonymous, true},
		{"anonymous to a context", Anonymous, a, false},
		{"feed's to anonymous", FeedOnly, Anonymous, false},
		{"feed's to a context", FeedOnly, a, false},
		{"a zero hash is no anonymous caller", Anonymous, ContextOf([16]byte{}, Asked{}), false},
		{"nor the feed", FeedOnly, ContextOf([16]byte{}, Asked{}), false},
	} {
		if got := tt.owner.Admits(tt.caller); got != tt.want {
			t.Errorf("%s: got %v", tt.name, got)
		}
	}
	if !Anonymous.IsAnonymous() || Public.IsAnonymous() || ContextOf([16]byte{}, Asked{}).IsAnonymous() {
		t.Error("not exactly the anonymous context is anonymous")
	}
}

func TestEntryCostCountsWhatItHolds(t *testing.T) {
	c := newCache(t, 1<<20)
	e := c.entry(toolsOf(Anonymous), "12345", 0)
	bare := e.cost()
	if bare < int64(cap(e.Body.Bytes)) {
		t.Errorf("a body of %d bytes costs %d", cap(e.Body.Bytes), bare)
	}
	e.Detail = make([]byte, 1000)
	if got := e.cost(); got < bare+2*1000 {
		t.Errorf("a detail, kept twice, costs %d bytes", got-bare)
	}
}
