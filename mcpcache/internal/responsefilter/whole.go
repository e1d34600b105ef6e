package responsefilter

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/budget"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/sse"
)

// json takes a part of a JSON answer. Without Whole, one that begins as a response goes as it comes once it is
// longer than Glance.
func (w *Writer) json(p []byte) error {
	switch {
	case w.passes:
		return w.passOn(p)
	case w.Whole || w.Glance == 0 || w.whole != nil:
		return w.keep(p)
	}
	if w.beginning = append(w.beginning, p...); int64(len(w.beginning)) <= w.Glance {
		return nil
	}
	beginning := w.beginning
	w.beginning = nil
	if w.passes = message.BeginsAsResponse(beginning); !w.passes {
		return w.keep(beginning)
	}
	w.watch(sse.JSON)
	return w.passOn(beginning)
}

// keep holds back a part of an answer.
func (w *Writer) keep(p []byte) error {
	if w.whole == nil {
		whole, ok := budget.NewBuffer(&w.share, -1)
		if !ok {
			return ErrTooLarge
		}
		w.whole = whole
	}
	if int64(w.whole.Len()+len(p)) > w.Limit || !w.whole.Write(p) {
		return ErrTooLarge
	}
	return nil
}

// finishWhole passes on what is left of an answer that was held back.
func (w *Writer) finishWhole() error {
	if w.passes {
		return nil
	}
	filtered, err := w.filterWhole()
	if err != nil {
		return err
	}
	if !w.wrote {
		h := w.below.Header()
		dropTags(h)
		h["Content-Length"] = []string{strconv.Itoa(len(filtered))}
		w.pass()
	}
	_, err = w.below.Write(filtered)
	return err
}

func (w *Writer) filterWhole() ([]byte, error) {
	data := w.beginning
	if w.whole != nil {
		var ok bool
		if data, ok = w.whole.Bytes(); !ok || !w.share.Grow(int64(len(data))) { // for what is left of it
			return nil, ErrTooLarge
		}
	}
	if len(data) == 0 {
		return nil, nil
	}
	filtered, err := w.Filter(data)
	page := isError(w.status) // it may be JSON, but no message
	switch {
	case errors.Is(err, message.ErrNoMessage) && (page || !w.Whole):
		return filtered, nil
	case err != nil && page && !message.MayShowItems(data):
		return data, nil
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrUnreadable, err)
	case filtered == nil && (w.Whole || w.Glance > 0) && !page:
		return nil, fmt.Errorf("%w: nothing in it is for the client", ErrUnreadable)
	}
	return filtered, nil
}
