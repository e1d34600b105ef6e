package message

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/jsonrpc"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// Reasons for which a list is refused as a whole.
var (
	ErrTooManyPages = errors.New("the list has more pages than max_pages allows")
	ErrListTooLarge = errors.New("the list is larger than max_list allows")
	ErrCursorCycle  = errors.New("a cursor of the list comes again, so that it would never end")
	ErrNotComplete  = errors.New("an answer is not a complete result")
)

// Walk goes through the pages of a list, or takes the one result of what is no list.
type Walk struct {
	Kind revision.Kind
	// Era decides what an empty cursor means: see [Walk.Cursor].
	Era revision.Era
	// MaxPages is the most pages of the list.
	MaxPages int
	// MaxBytes is how many bytes their results may have together.
	MaxBytes int64

	Pages []*Page
	Bytes int64 // of their results
	// Emptied says that the list has ended with an empty cursor.
	Emptied bool

	cursors map[string]bool
	// empty is the last page if its cursor is an empty one, which may be none.
	empty *Page
	done  bool
}

// Take takes the result of the next page.
func (w *Walk) Take(result []byte) error {
	if w.Bytes += int64(len(result)); w.Bytes > w.MaxBytes {
		return fmt.Errorf("%w: %d bytes", ErrListTooLarge, w.MaxBytes)
	}
	page, err := ParsePage(result, w.Kind)
	switch {
	case err != nil:
		return err
	case !page.Complete:
		return ErrNotComplete
	case w.empty != nil && (page.Count == 0 || page.hasNamesOf(w.Pages[0]) || page.hasNamesOf(w.empty)):
		w.endList()
		return nil
	}
	w.Pages, w.empty = append(w.Pages, page), nil
	if w.done = page.NextCursor == nil; w.done {
		return nil
	}
	if w.Era == revision.Legacy && string(page.NextCursor) == `""` {
		w.empty = page
	}
	return w.follow(string(page.NextCursor))
}

// follow notes that a cursor is followed.
func (w *Walk) follow(cursor string) error {
	if w.cursors == nil {
		w.cursors = make(map[string]bool)
	}
	if w.cursors[cursor] {
		return ErrCursorCycle
	}
	w.cursors[cursor] = true
	if len(w.Pages) >= w.MaxPages {
		return fmt.Errorf("%w: %d", ErrTooManyPages, w.MaxPages)
	}
	return nil
}

// Cursor returns the raw JSON string by which to ask for the next page, nil if there is none:
// the list is whole.
//
// Some legacy servers end their lists with an empty cursor, which is one like any other to
// the specification (java-sdk#575). It is followed. If what comes is a page that has been
// there, or an empty one, or the cursor is refused, the list has ended with it.
func (w *Walk) Cursor() []byte {
	if w.done {
		return nil
	}
	return w.Pages[len(w.Pages)-1].NextCursor
}

// EndsWith reports whether the list ends with an error of that code, in answer to an empty
// cursor (2025-11-25, "Pagination", "Error Handling"), and ends it there.
func (w *Walk) EndsWith(code int) bool {
	if w.empty == nil || code != jsonrpc.InvalidParams {
		return false
	}
	w.endList()
	return true
}

// endList makes the last page, whose cursor is an empty one, the end of the list.
func (w *Walk) endList() { w.empty.NextCursor, w.done, w.Emptied = nil, true, true }

// hasNamesOf reports whether a page has items of the same names as another, in their order.
func (p *Page) hasNamesOf(other *Page) bool {
	if p.Count != other.Count {
		return false
	}
	for i := range uint32(p.Count) {
		if !bytes.Equal(p.items.name(i), other.items.name(i)) {
			return false
		}
	}
	return true
}
