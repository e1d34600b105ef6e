package off_test

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/caddy-mcp/mcp-cache/mcpcache/stores/off"
)

func TestOffKeepsNothing(t *testing.T) {
	s := new(off.Off)
	if err := s.Save(t.Context(), "key", []byte("value")); err != nil {
		t.Errorf("saving: %v", err)
	}
	if value, err := s.Load(t.Context(), "key"); !errors.Is(err, fs.ErrNotExist) || value != nil {
		t.Errorf("loading: got %q, %v", value, err)
	}
	if err := s.Delete(t.Context(), "key"); err != nil {
		t.Errorf("deleting: %v", err)
	}
}
