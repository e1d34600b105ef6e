package message

import (
	"bytes"

	"golang.org/x/net/http/httpguts"
)

// Mirrored returns the headers that a call of a tool has to have besides, by name: what its
// schema says of arguments with x-mcp-header, and what the arguments are (2026-07-28,
// "Streamable HTTP", "Custom Headers from Tool Parameters"). An argument that is missing or
// null, or neither a string, a number nor a boolean, has none.
func Mirrored(tool, arguments []byte) map[string]string {
	if !bytes.Contains(tool, []byte(mirrorKey)) {
		return nil // as most tools
	}
	schema, ok := ValueAt(tool, "inputSchema")
	if !ok {
		return nil
	}
	headers := make(map[string]string)
	mirror(schema, arguments, headers, 0)
	return headers
}

const (
	mirrorKey    = "x-mcp-header"
	mirrorPrefix = "Mcp-Param-"
	// maxMirrorDepth is how deep in the arguments something may be that is mirrored.
	maxMirrorDepth = 16
)

var (
	propertiesKeys = keys("properties")
	mirrorKeys     = keys(mirrorKey)
)

// mirror adds the headers of the properties of a schema. A schema that parsers may read
// differently has none: the server says so then.
func mirror(schema, arguments []byte, headers map[string]string, depth int) {
	properties := memberOf(schema, propertiesKeys)
	if properties == nil || depth == maxMirrorDepth {
		return
	}
	_ = eachMember(properties, nil, func(_ int, name, property []byte) error {
		value := memberOf(arguments, keys(string(unquote(name))))
		if len(value) > 0 && isObject(value) {
			mirror(property, value, headers, depth+1)
			return nil
		}
		header := memberOf(property, mirrorKeys)
		text, can := mirrored(value)
		if can && header != nil && isString(header) && httpguts.ValidHeaderFieldName(string(unquote(header))) {
			headers[mirrorPrefix+string(unquote(header))] = EncodeHeader(text)
		}
		return nil
	})
}

// memberOf returns the raw value of the only known member of an object, or nil.
func memberOf(object []byte, known keyset) (found []byte) {
	if len(object) == 0 || !isObject(object) {
		return nil
	}
	err := eachMember(object, known, func(key int, _, value []byte) error {
		if key != unknown {
			found = value
		}
		return nil
	})
	if err != nil {
		return nil
	}
	return found
}

// mirrored returns what a header says of a raw value, if it can.
func mirrored(value []byte) (text string, can bool) {
	switch {
	case len(value) == 0 || value[0] == '[' || value[0] == '{' || value[0] == 'n':
		return "", false
	case isString(value):
		return string(unquote(value)), true
	}
	return string(value), true // a number, or a boolean
}
