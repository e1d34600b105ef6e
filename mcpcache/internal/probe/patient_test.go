package probe

import (
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
)

// TestNothingIsReadFirst has the other end speak first.
func TestNothingIsReadFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		c := &patientConn{Conn: here, spoken: make(chan struct{})}
		go func() { _, _ = there.Write([]byte("hello")) }()
		read := make(chan string, 1)
		go func() {
			room := make([]byte, 5)
			_, _ = io.ReadFull(c, room)
			read <- string(room)
		}()
		synctest.Wait()
		if len(read) > 0 {
			t.Errorf("%q was read before anything was written", <-read)
		}
		go func() { _, _ = there.Read(make([]byte, 2)) }()
		if _, err := c.Write([]byte("hi")); err != nil {
			t.Fatal(err)
		}
		if got := <-read; got != "hello" {
			t.Errorf("%q was read", got)
		}
	})
}

// TestCloseEndsAPatientRead closes a connection on which nothing was written.
func TestCloseEndsAPatientRead(t *testing.T) {
	here, there := net.Pipe()
	defer there.Close()
	c := &patientConn{Conn: here, spoken: make(chan struct{})}
	failed := make(chan error, 1)
	go func() {
		_, err := c.Read(make([]byte, 1))
		failed <- err
	}()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("reading gives %v", err)
	}
}
