package mcpcache

import (
	"testing"
	"time"
)

// TestNeighbourWithoutCompression has two handlers share a cache: that one of
// them wants nothing compressed is its own business, whichever comes last.
func TestNeighbourWithoutCompression(t *testing.T) {
	h := pinnedHandler(t, 50)
	with, without := h.settings, settingsOf(t, &Handler{Precompress: new(bool)})
	e := toolsEntry(t, 50)
	for name, users := range map[string][]*settings{
		"wanted last": {without, with}, "wanted first": {with, without}, "wanted by nobody": {without, without},
	} {
		t.Run(name, func(t *testing.T) {
			for _, s := range users {
				defer h.shared.attach(&user{settings: s, logger: h.logger})()
			}
			h.shared.cache.Unpin(e.Revision, e.Kind) // the next bytes are new
			for len(h.shared.cache.Wanted()) > 0 {
				<-h.shared.cache.Wanted()
			}
			e.Fetched = time.Now()
			h.shared.cache.Pin(e)
			if got, want := len(h.shared.cache.Wanted()) == 1, name != "wanted by nobody"; got != want {
				t.Errorf("the list is to be compressed: %t, want %t", got, want)
			}
		})
	}
}
