package header

import (
	"mime"
	"strings"
)

// IsJSON reports whether the values of Content-Type say that a body is JSON in UTF-8.
func IsJSON(values []string) bool {
	if len(values) != 1 {
		return false
	}
	if values[0] == "application/json" {
		return true
	}
	media, params, err := mime.ParseMediaType(values[0])
	charset, given := params["charset"]
	return err == nil && media == "application/json" && (!given || strings.EqualFold(charset, "utf-8"))
}
