// Package qvalue reads quality values, the weights of RFC 9110 section 12.4.2. It knows nothing of
// what they weigh.
package qvalue

import "strings"

// A Value is how much a client wants one of several things, in thousandths: 0
// is not at all (RFC 9110 section 12.4.2).
type Value int16

// full is the weight of what has none given.
const full Value = 1000

// In reads the q parameter among others. One that is not a weight counts
// as 0.
func In(params string) Value {
	for param := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(param, "=")
		if strings.EqualFold(strings.TrimSpace(name), "q") {
			return parse(strings.TrimSpace(value))
		}
	}
	return full
}

// parse reads 0 or 1 with up to three decimals, none of which is above 1.
func parse(s string) Value {
	whole, decimals, _ := strings.Cut(s, ".")
	if whole != "0" && whole != "1" || len(decimals) > 3 {
		return 0
	}
	value := Value(whole[0]-'0') * full
	for unit := full / 10; decimals != ""; unit, decimals = unit/10, decimals[1:] {
		if decimals[0] < '0' || decimals[0] > '9' {
			return 0
		}
		value += Value(decimals[0]-'0') * unit
	}
	if value > full {
		return 0
	}
	return value
}
