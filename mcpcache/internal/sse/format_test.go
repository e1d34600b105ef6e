package sse

import "testing"

func TestFormatOf(t *testing.T) {
	for _, c := range []struct {
		contentType, encoding []string
		get                   bool
		want                  Format
	}{
		{[]string{"application/json"}, nil, false, JSON},
		{[]string{"Application/JSON; charset=UTF-8"}, nil, false, JSON},
		{[]string{"application/problem+json"}, nil, false, JSON},
		{[]string{"text/event-stream"}, nil, false, Stream},
		{[]string{"TEXT/EVENT-STREAM;charset=\"utf-8\""}, []string{""}, false, Stream},
		{[]string{"text/event-stream, text/plain"}, []string{"identity"}, false, Stream},
		{[]string{"text/plain", "text/event-stream"}, []string{"Identity, identity"}, false, Stream},
		{[]string{"text/event-stream", "application/json"}, nil, false, Stream},
		{[]string{"application/json"}, nil, true, Stream},
		{[]string{"text/html"}, nil, false, Unwatched},
		{[]string{"text/html"}, []string{"gzip"}, false, Unwatched},
		{nil, nil, false, Unwatched},
		{nil, nil, true, Stream},
		{nil, []string{"br"}, true, Unreadable},
		{[]string{"text/event-stream"}, []string{"gzip"}, false, Unreadable},
		{[]string{"text/event-stream"}, []string{"identity", "x-unknown"}, false, Unreadable},
		{[]string{"application/json"}, []string{"identity,zstd"}, false, Unreadable},
		{[]string{"text/event-stream; charset=utf-16"}, nil, false, Unreadable},
		{[]string{"application/json; charset=utf-8; CHARSET = 'UTF-7'"}, nil, false, Unreadable},
		{[]string{"application/json; charset=iso-8859-1"}, nil, false, JSON},
		{[]string{"text/html; charset=utf-16"}, nil, false, Unwatched},
	} {
		if got := FormatOf(c.get, c.contentType, c.encoding); got != c.want {
			t.Errorf("%t, %q, %q: got %d, want %d", c.get, c.contentType, c.encoding, got, c.want)
		}
	}
}
