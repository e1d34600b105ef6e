package splice

import "hash/crc32"

// polynomial is one over GF(2), reduced modulo the CRC-32 polynomial of gzip.
// As in the checksum itself, the highest bit is the coefficient of x^0.
type polynomial uint32

const (
	one     polynomial = 1 << 31
	toThe8  polynomial = 1 << (31 - 8)
	reducer polynomial = crc32.IEEE
)

// times multiplies a and b.
func (a polynomial) times(b polynomial) polynomial {
	var product polynomial
	for ; a != 0; a <<= 1 {
		// Masks instead of branches: the bits are as good as random.
		product ^= b & -(a >> 31)
		b = b>>1 ^ reducer&-(b&1)
	}
	return product
}

// shiftBy returns x^(8n): what the checksum of some bytes is multiplied with
// when n more bytes follow.
func shiftBy(n int) polynomial {
	result, square := one, toThe8
	for ; n > 0; n >>= 1 {
		if n&1 != 0 {
			result = result.times(square)
		}
		square = square.times(square)
	}
	return result
}

// combine returns the CRC-32 of a and b from the checksums of both, shift
// being shiftBy(len(b)).
func combine(a, b uint32, shift polynomial) uint32 {
	return uint32(shift.times(polynomial(a))) ^ b
}
