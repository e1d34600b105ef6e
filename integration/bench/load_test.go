package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// answering returns a connection to a peer that answers every request with a
// status, and the ids that it gets.
func answering(t *testing.T, status int) (*conn, <-chan json.Number) {
	t.Helper()
	client, server := net.Pipe()
	ids := make(chan json.Number, 100)
	done := make(chan struct{})
	go func() {
		defer close(done)
		in := bufio.NewReader(server)
		for {
			r, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			var body struct{ ID json.Number }
			if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
				t.Errorf("reading request: %v", err)
			}
			ids <- body.ID
			_, _ = io.WriteString(server, fmt.Sprintf("HTTP/1.1 %d x\r\nContent-Length: 2\r\n\r\nok", status))
		}
	}()
	t.Cleanup(func() {
		client.Close()
		<-done
	})
	return &conn{net: client, in: bufio.NewReader(client)}, ids
}

func TestLaneCountsIDsUp(t *testing.T) {
	c, ids := answering(t, http.StatusOK)
	l := &lane{conn: c, request: caller{revision: legacy}.request("h", "tools/list", "", "").clone(3)}
	l.run(time.Now().Add(time.Hour), 3)
	if l.err != nil || len(l.took) != 3 || l.bytes != 6 {
		t.Fatalf("error %v, %d answers, %d bytes", l.err, len(l.took), l.bytes)
	}
	for _, want := range []json.Number{"1030000000", "1030000001", "1030000002"} {
		if got := <-ids; got != want {
			t.Errorf("id is %s, want %s", got, want)
		}
	}
}

func TestLaneEnds(t *testing.T) {
	c, _ := answering(t, http.StatusOK)
	l := &lane{conn: c, request: caller{revision: legacy}.request("h", "tools/list", "", "")}
	if l.run(time.Now(), 0); l.err != nil || len(l.took) != 0 {
		t.Errorf("after the time is up: error %v, %d answers", l.err, len(l.took))
	}
	c, _ = answering(t, http.StatusBadGateway)
	l = &lane{conn: c, request: l.request}
	if l.run(time.Now().Add(time.Hour), 0); l.err == nil || len(l.took) != 0 {
		t.Errorf("after a failure: error %v, %d answers", l.err, len(l.took))
	}
}

func TestCollect(t *testing.T) {
	var r LoadResult
	lanes := []*lane{{took: []time.Duration{3, 1}, bytes: 5}, {took: []time.Duration{2}, bytes: 6}}
	if err := r.collect(lanes); err != nil || r.Requests != 3 || r.Bytes != 11 || r.P50 != 2 || r.P99 != 3 {
		t.Errorf("got %+v and error %v", r, err)
	}
	if err := r.collect([]*lane{{err: io.EOF}}); err == nil {
		t.Error("the failure of a connection is lost")
	}
}
