package instance

import (
	"sync"
	"testing"
)

// All who ask at once for the name of an instance that has none yet are told the same.
func TestNameIsOne(t *testing.T) {
	for range 20 {
		t.Setenv("XDG_DATA_HOME", t.TempDir())
		var names [20]string
		var asking sync.WaitGroup
		for i := range names {
			asking.Go(func() { names[i], _ = Name() })
		}
		asking.Wait()
		for _, name := range names {
			if name == "" || name != names[0] {
				t.Fatalf("the instance is called %q and %q", names[0], name)
			}
		}
	}
}
