package splice

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// ended is a context that ends after Err was asked a number of times.
type ended struct {
	context.Context
	left int
}

func (c *ended) Err() error {
	if c.left == 0 {
		return context.Canceled
	}
	c.left--
	return nil
}

// hasWorker reports whether c keeps its encoders.
func hasWorker(c *Codec) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.idle != nil
}

func TestEncodeStopsWithItsContext(t *testing.T) {
	for left := range 2 {
		var c Codec
		e, err := c.Encode(&ended{context.Background(), left}, listBody(5))
		if e != nil || !errors.Is(err, context.Canceled) {
			t.Errorf("after %d questions: Encode = %v, %v", left, e, err)
		}
		if hasWorker(&c) {
			t.Errorf("after %d questions: the worker is kept", left)
		}
	}
}

// TestCodecLetsEncodersGo also shows that no goroutine is left: the bubble
// would not end.
func TestCodecLetsEncodersGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Codec
		encode := func() {
			t.Helper()
			if _, err := c.Encode(t.Context(), listBody(5)); err != nil {
				t.Fatal(err)
			}
		}
		encode()
		first := c.idle
		time.Sleep(idleTime - 1)
		encode()
		if c.idle != first {
			t.Fatal("the worker was not used again")
		}
		time.Sleep(idleTime - 1)
		if !hasWorker(&c) {
			t.Fatal("the worker was let go too early")
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if hasWorker(&c) {
			t.Fatal("the worker was kept")
		}
		encode()
		if c.Release(); hasWorker(&c) {
			t.Fatal("the worker was kept although it was released")
		}
		encode()
	})
}

func TestCodecIsConcurrent(t *testing.T) {
	var c Codec
	list := listBody(50)
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			body := list[i:]
			e, err := c.Encode(context.Background(), body)
			if err != nil {
				t.Error(err)
				return
			}
			checkAnswers(t, e, []byte(probe), body)
		})
	}
	wg.Wait()
}

func TestWorkerKeepsNoLargeBuffer(t *testing.T) {
	w := mustWorker(t)
	if _, err := w.encode(context.Background(), listBody(50)); err != nil || w.scratch == nil {
		t.Errorf("after a small body: %d bytes, %v", cap(w.scratch), err)
	}
	if _, err := w.encode(context.Background(), randomBody(maxScratch+1)); err != nil || w.scratch != nil {
		t.Errorf("after a large body: %d bytes, %v", cap(w.scratch), err)
	}
}
