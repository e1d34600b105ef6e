package message

import (
	"errors"
	"slices"
	"testing"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// TestWalk goes through lists as servers give them, page by page.
func TestWalk(t *testing.T) {
	const (
		ab    = `{"tools":[{"name":"a"},{"name":"b"}]`
		empty = ab + `,"nextCursor":""}`
	)
	for name, tt := range map[string]struct {
		era     revision.Era
		results []string
		code    int // of an error after them; 0: none
		names   []string
		err     error
	}{
		"one page":            {revision.Legacy, []string{ab + `}`}, 0, []string{"a", "b"}, nil},
		"two":                 {revision.Legacy, []string{ab + `,"nextCursor":"2"}`, `{"tools":[{"name":"c"}]}`}, 0, []string{"a", "b", "c"}, nil},
		"null":                {revision.Legacy, []string{ab + `,"nextCursor":null}`}, 0, []string{"a", "b"}, nil},
		"empty, the same":     {revision.Legacy, []string{empty, empty}, 0, []string{"a", "b"}, nil},
		"empty, nothing":      {revision.Legacy, []string{empty, `{"tools":[]}`}, 0, []string{"a", "b"}, nil},
		"empty, refused":      {revision.Legacy, []string{empty}, -32602, []string{"a", "b"}, nil},
		"empty, failed":       {revision.Legacy, []string{empty}, -32603, nil, errFailed},
		"empty, the next one": {revision.Legacy, []string{empty, `{"tools":[{"name":"c"},{"name":"d"}]}`}, 0, []string{"a", "b", "c", "d"}, nil},
		"empty, others of as many": {
			revision.Legacy, []string{empty, `{"tools":[{"name":"a"},{"name":"c"}],"nextCursor":"2"}`, `{"tools":[]}`}, 0, []string{"a", "b", "a", "c"}, nil,
		},
		"empty, the first of two": {
			revision.Legacy, []string{ab + `,"nextCursor":"2"}`, `{"tools":[{"name":"c"}],"nextCursor":""}`, ab + `,"nextCursor":"2"}`}, 0, []string{"a", "b", "c"}, nil,
		},
		"empty for ever":  {revision.Legacy, []string{empty, `{"tools":[{"name":"c"}],"nextCursor":""}`}, 0, nil, ErrCursorCycle},
		"empty, modern":   {revision.Modern, []string{empty, empty}, 0, nil, ErrCursorCycle},
		"refused, modern": {revision.Modern, []string{empty}, -32602, nil, errFailed},
		"refused":         {revision.Legacy, []string{ab + `,"nextCursor":"2"}`}, -32602, nil, errFailed},
		"a cycle": {
			revision.Legacy, []string{ab + `,"nextCursor":"2"}`, `{"tools":[],"nextCursor":"3"}`, `{"tools":[],"nextCursor":"2"}`}, 0, nil, ErrCursorCycle,
		},
		"too many": {
			revision.Legacy, []string{`{"tools":[],"nextCursor":"1"}`, `{"tools":[],"nextCursor":"2"}`, `{"tools":[],"nextCursor":"3"}`}, 0, nil, ErrTooManyPages,
		},
		"too large":    {revision.Legacy, []string{`{"tools":[],"x":"` + string(make([]byte, 500)) + `"}`}, 0, nil, ErrListTooLarge},
		"not complete": {revision.Legacy, []string{`{"tools":[],"resultType":"task"}`}, 0, nil, ErrNotComplete},
		"no list":      {revision.Legacy, []string{`{}`}, 0, nil, ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			w := Walk{Kind: revision.Tools, Era: tt.era, MaxPages: 3, MaxBytes: 400}
			err := walk(&w, tt.results, tt.code)
			if !errors.Is(err, tt.err) {
				t.Fatalf("got error %v, want %v", err, tt.err)
			}
			if err != nil {
				return
			}
			b, err := Join(revision.Tools, w.Pages)
			if err != nil {
				t.Fatal(err)
			}
			if got := b.Names(); !slices.Equal(got, tt.names) {
				t.Errorf("got %q, want %q", got, tt.names)
			}
			if ended := len(tt.names) > 0 && len(tt.results) > 1 && w.Cursor() != nil; ended {
				t.Error("a list that is whole has a cursor")
			}
		})
	}
}

var errFailed = errors.New("the request failed")

// walk takes the results in turn, and then an error of that code if there is still a page to
// ask for.
func walk(w *Walk, results []string, code int) error {
	for _, result := range results {
		if err := w.Take([]byte(result)); err != nil {
			return err
		}
		if w.Cursor() == nil {
			return nil
		}
	}
	if w.EndsWith(code) && w.Cursor() == nil && w.Emptied {
		return nil
	}
	return errFailed
}
