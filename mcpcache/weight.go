package mcpcache

import "strings"

// A weight is how much a client wants one of several things, in thousandths: 0
// is not at all (RFC 9110 section 12.4.2).
type weight int16

// full is the weight of what has none given.
const full weight = 1000

// weightIn reads the q parameter among others. One that is not a weight counts
// as 0.
func weightIn(params string) weight {
	for param := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(param, "=")
		if strings.EqualFold(strings.TrimSpace(name), "q") {
			return parseWeight(strings.TrimSpace(value))
		}
	}
	return full
}

// parseWeight reads 0 or 1 with up to three decimals, none of which is above 1.
func parseWeight(s string) weight {
	whole, decimals, _ := strings.Cut(s, ".")
	if whole != "0" && whole != "1" || len(decimals) > 3 {
		return 0
	}
	value := weight(whole[0]-'0') * full
	for unit := full / 10; decimals != ""; unit, decimals = unit/10, decimals[1:] {
		if decimals[0] < '0' || decimals[0] > '9' {
			return 0
		}
		value += weight(decimals[0]-'0') * unit
	}
	if value > full {
		return 0
	}
	return value
}
