package message

import "slices"

const (
	infoName = iota
	infoVersion
	infoIcons
)

// The values of the other keys are strings.
var clientInfoKeys = keys("name", "version", "icons", "title", "description", "websiteUrl")

const (
	iconSource = iota
	iconSizes
	iconTheme
)

// The values of the other keys are strings.
var iconKeys = keys("src", "sizes", "theme", "mimeType")

// themes are those of an icon (2026-07-28, schema, "Icon").
var themes = keys(`"light"`, `"dark"`)

// clientInfo checks that the next value is an Implementation (2026-07-28,
// schema): with the members that one must have, and what is known of the others.
// The cache has no use for it, but upstreams refuse others.
func (s *scanner) clientInfo() error {
	before, err := s.eachOf(clientInfoKeys, "clientInfo is not an object", func(key int) error {
		if key == infoIcons {
			return s.each("icons is not an array", s.icon)
		}
		return s.textOf(key, "clientInfo has a member that is not a string")
	})
	if err == nil && (!before.has(infoName) || !before.has(infoVersion)) {
		err = invalid("clientInfo without name or version")
	}
	return err
}

// icon checks that the next value is an Icon.
func (s *scanner) icon() error {
	before, err := s.eachOf(iconKeys, "an icon is not an object", func(key int) error {
		switch key {
		case iconSizes:
			return s.each("sizes is not an array", func() error {
				_, err := s.stringValue("a size is not a string")
				return err
			})
		case iconTheme:
			value, err := s.value()
			if err == nil && !isOneOf(themes, value) {
				err = invalid("the theme of an icon is neither light nor dark")
			}
			return err
		}
		return s.textOf(key, "an icon has a member that is not a string")
	})
	if err == nil && !before.has(iconSource) {
		err = invalid("an icon without src")
	}
	return err
}

// textOf reads the value of a key, which has to be a string if the key is known.
func (s *scanner) textOf(key int, otherwise string) error {
	if key == unknown {
		_, err := s.value()
		return err
	}
	_, err := s.stringValue(otherwise)
	return err
}

// isOneOf reports whether a raw JSON value is one of those, written plainly.
func isOneOf(values keyset, value []byte) bool {
	return slices.ContainsFunc(values, func(known []byte) bool { return string(known) == string(value) })
}
