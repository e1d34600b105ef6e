package command

import (
	"fmt"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/spf13/pflag"
)

// headersOf returns what --header says, as "Name: value" each, with placeholders of
// values replaced.
func headersOf(flags *pflag.FlagSet) ([]string, error) {
	return replaceInHeaders(headersGiven(flags))
}

// headersGiven returns them as they are given.
func headersGiven(flags *pflag.FlagSet) []string {
	return flags.Lookup("header").Value.(pflag.SliceValue).GetSlice() // GetStringArray takes a single empty one for none
}

// replaceInHeaders replaces the placeholders of values: a secret that comes from the environment
// or from a file is not in the list of processes. No error repeats a value.
func replaceInHeaders(headers []string) ([]string, error) {
	replacer := caddy.NewReplacer()
	for i, header := range headers {
		name, value, found := strings.Cut(header, ":")
		if !found {
			continue // whoever reads them says so
		}
		value, err := replacer.ReplaceOrErr(value, true, true)
		if err != nil { // it would repeat what it takes for a placeholder
			return nil, fmt.Errorf(`header %d has a placeholder that is empty or unknown: such as {env.NAME} and {file.PATH} are known, and \{ is a brace`, i+1)
		}
		headers[i] = name + ":" + value
	}
	return headers, nil
}
