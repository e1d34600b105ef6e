package message

import "slices"

// resultNulls are members of results that are left out if they are null.
var resultNulls = keys("resultType", "ttlMs", "cacheScope", "nextCursor")

// Deviations returns what a response that [ParseResponse] reads has in it that neither
// JSON-RPC nor MCP allows, in words and each once; and members of its result that are null,
// which [ParsePage] leaves out.
func Deviations(response []byte) []string {
	var found []string
	note := func(text string) {
		if !slices.Contains(found, text) {
			found = append(found, text)
		}
	}
	s := scan(response)
	defer s.release()
	if s.enter() != nil {
		return nil
	}
	versions := 0
	for s.more() {
		name, err := s.value()
		if err != nil {
			return found
		}
		key, _ := topKeys.find(s.unescape(name))
		value, err := s.value()
		switch {
		case err != nil:
			return found
		case key == topJSONRPC:
			if versions++; versions > 1 {
				note("jsonrpc comes twice")
			}
		case key == topID && isNumber(value) && !isInteger(value):
			note("the id is written as a fraction")
		case key != topID && key != unknown && isNull(value):
			note(string(topKeys[key]) + " is null")
		case key == topResult:
			// What is repeated in it is found elsewhere.
			_ = eachMember(value, resultNulls, func(key int, _, value []byte) error {
				if key != unknown && isNull(value) {
					note(string(resultNulls[key]) + " is null")
				}
				return nil
			})
		}
	}
	return found
}
