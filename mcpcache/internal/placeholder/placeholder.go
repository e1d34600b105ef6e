// Package placeholder finds the placeholders in a configuration. It replaces those in the options
// of a guard or a store when Caddy loads the configuration. Its errors name the option. They leave
// out the value, which may be a secret.
package placeholder

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
)

// pattern matches a placeholder. If one stands in another, it matches the inner one.
var pattern = regexp.MustCompile(`\{([^{}"\n]+)\}`)

// Names returns the names of the placeholders in a text or in JSON, each once and in order.
func Names[T string | ~[]byte](text T) []string {
	all := pattern.FindAllStringSubmatch(string(text), -1)
	names := make([]string, 0, len(all))
	for _, found := range all {
		names = append(names, found[1])
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// onePlaceholder matches values that are nothing but a placeholder, which may
// be named in an error; any other value may hold a secret.
var onePlaceholder = regexp.MustCompile(`^\{(env|file|system|http|vars)\.[A-Za-z0-9_./:\\ -]+\}$`)

// Resolve replaces the placeholders of an option's value with what they stand
// for now. An unknown or empty placeholder, or an empty value, is an error that
// names the option and not the value.
func Resolve(option, value string) (string, error) {
	resolved, err := caddy.NewReplacer().ReplaceOrErr(value, true, true)
	if err != nil {
		if onePlaceholder.MatchString(value) {
			return "", fmt.Errorf("%s: placeholder %s is empty or unknown", option, value)
		}
		return "", fmt.Errorf("%s: a placeholder in it is empty or unknown", option)
	}
	if strings.TrimSpace(resolved) == "" {
		return "", fmt.Errorf("%s: must not be empty", option)
	}
	return resolved, nil
}

// Path replaces the placeholders of a configured path, which must be
// absolute: the working directory of a server is nobody's choice and may
// differ between start and reload. The file need not exist yet.
func Path(option, path string) (string, error) {
	path, err := Resolve(option, path)
	if err != nil {
		return "", err
	}
	if !filepath.IsAbs(path) {
		return "", fmt.Errorf("%s: %w: %q", option, errNotAbsolute, path)
	}
	return filepath.Clean(path), nil
}

var errNotAbsolute = errors.New("path must be absolute")
