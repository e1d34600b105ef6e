package splice

import (
	"hash/crc32"
	"testing"
)

func TestCombine(t *testing.T) {
	all := randomBody(5000)
	for _, total := range []int{0, 1, 2, 255, 256, 4096, 5000} {
		for _, cut := range []int{0, 1, 3, 100, 256, 4999, 5000} {
			if cut > total {
				continue
			}
			a, b := all[:cut], all[cut:total]
			got := combine(crc32.ChecksumIEEE(a), crc32.ChecksumIEEE(b), shiftBy(len(b)))
			if want := crc32.ChecksumIEEE(all[:total]); got != want {
				t.Errorf("%d+%d bytes: %08x, want %08x", len(a), len(b), got, want)
			}
		}
	}
}

// TestShiftBy checks lengths that no test has the memory for: shifting by a
// sum is shifting twice.
func TestShiftBy(t *testing.T) {
	for _, n := range []int{0, 1, 1 << 20, 1 << 30, 1<<31 - 1 - 4096} {
		if got, want := shiftBy(n+4096), shiftBy(n).times(shiftBy(4096)); got != want {
			t.Errorf("%d: %08x, want %08x", n, got, want)
		}
	}
}
