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

// idleWorkers returns how many encoders c keeps.
func idleWorkers(c *Codec) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.idle)
}

func TestEncodeStopsWithItsContext(t *testing.T) {
	for left := range 2 {
		c := NewCodec(1)
		e, err := c.Encode(&ended{context.Background(), left}, listBody(5))
		if e != nil || !errors.Is(err, context.Canceled) {
			t.Errorf("after %d questions: Encode = %v, %v", left, e, err)
		}
		if len(c.slots) != 0 || idleWorkers(c) != 0 {
			t.Errorf("after %d questions: %d slots taken, %d workers kept", left, len(c.slots), idleWorkers(c))
		}
	}
}

func TestEncodeWaitsForItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCodec(2)
		c.slots <- struct{}{}
		if _, err := c.Encode(t.Context(), listBody(5)); err != nil {
			t.Fatalf("with a slot left: %v", err)
		}
		c.slots <- struct{}{}
		ctx, cancel := context.WithCancel(t.Context())
		given := make(chan error)
		for range 2 {
			go func() {
				_, err := c.Encode(ctx, listBody(5))
				given <- err
			}()
		}
		synctest.Wait()
		select {
		case err := <-given:
			t.Fatalf("did not wait: %v", err)
		default:
		}
		<-c.slots
		if err := <-given; err != nil {
			t.Errorf("after a slot came free: %v", err)
		}
		if err := <-given; err != nil {
			t.Errorf("after the other was done: %v", err)
		}
		c.slots <- struct{}{}
		go func() {
			_, err := c.Encode(ctx, listBody(5))
			given <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-given; !errors.Is(err, context.Canceled) {
			t.Errorf("after its context ended: %v", err)
		}
	})
}

// TestCodecLetsEncodersGo also shows that no goroutine is left: the bubble
// would not end.
func TestCodecLetsEncodersGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCodec(1)
		encode := func() {
			t.Helper()
			if _, err := c.Encode(t.Context(), listBody(5)); err != nil {
				t.Fatal(err)
			}
		}
		encode()
		first := c.idle[0]
		time.Sleep(idleTime - 1)
		encode()
		if idleWorkers(c) != 1 || c.idle[0] != first {
			t.Fatal("the worker was not used again")
		}
		time.Sleep(idleTime - 1)
		if idleWorkers(c) != 1 {
			t.Fatal("the worker was let go too early")
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if idleWorkers(c) != 0 {
			t.Fatal("the worker was kept")
		}
		encode()
	})
}

func TestCodecIsBounded(t *testing.T) {
	c := NewCodec(2)
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
	if n := idleWorkers(c); n < 1 || n > 2 {
		t.Errorf("%d workers", n)
	}
	if cap(NewCodec(0).slots) != 1 {
		t.Error("a codec must have at least one slot")
	}
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
