package message

import (
	"bytes"
	"math"
	"strconv"
)

// MaxID is the length in bytes of the longest id that is accepted, as written.
const MaxID = 1 << 10

// validID reports whether a raw JSON value can be the id of a request: a string
// or an integer, as MCP has it ("Requests"), not null, and not so long that
// echoing it is a burden.
func validID(value []byte) bool {
	return len(value) <= MaxID && (isString(value) || isInteger(value))
}

func checkID(value []byte) error {
	if !validID(value) {
		return invalid("id is not a string or integer of at most 1 KiB")
	}
	return nil
}

// isInteger reports whether a raw JSON value is an integer, written plainly.
func isInteger(value []byte) bool { return isNumber(value) && !bytes.ContainsAny(value, ".eE") }

// maxSafe is the largest integer that JavaScript tells from its neighbours, 2^53-1.
const maxSafe = "9007199254740991"

// isSafe reports whether an integer, written plainly, is one that every program
// can hold.
func isSafe(integer []byte) bool {
	digits := bytes.TrimPrefix(integer, []byte("-"))
	return len(digits) < len(maxSafe) || len(digits) == len(maxSafe) && string(digits) <= maxSafe
}

// wholeID returns an id that is an integer plainly, however the number is written, as
// programs read it. What not every program holds stays as it is.
func wholeID(id []byte) []byte {
	if len(id) > MaxID || !isNumber(id) || isInteger(id) {
		return id
	}
	n, err := strconv.ParseFloat(string(id), 64)
	if err != nil || n != math.Trunc(n) || math.Abs(n) >= 1<<53 {
		return id
	}
	return strconv.AppendInt(nil, int64(n), 10)
}

// SameID reports whether two raw ids are one, however a string or an integer is written.
func SameID(a, b []byte) bool {
	if len(a) == 0 || len(b) == 0 {
		return len(a) == len(b)
	}
	if isString(a) && isString(b) {
		return bytes.Equal(unquote(a), unquote(b))
	}
	return bytes.Equal(wholeID(a), wholeID(b))
}

// Number returns the number of a request that was given one, of a raw id or progress token, however the number
// is written. It reports false if that is none.
func Number(id []byte) (number uint64, ok bool) {
	if len(id) == 0 {
		return 0, false
	}
	number, err := strconv.ParseUint(string(wholeID(id)), 10, 64)
	return number, err == nil
}
