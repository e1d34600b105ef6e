package command

import (
	"fmt"

	"github.com/caddyserver/caddy/v2"
	"github.com/spf13/pflag"
)

// headersOf returns what --header says, as "Name: value" each, with placeholders
// replaced: a secret that comes from the environment or from a file is not in the
// list of processes. No error repeats a value.
func headersOf(flags *pflag.FlagSet) ([]string, error) {
	headers, err := flags.GetStringArray("header")
	if err != nil {
		return nil, err
	}
	replacer := caddy.NewReplacer()
	for i, header := range headers {
		if headers[i], err = replacer.ReplaceOrErr(header, true, true); err != nil { // it would repeat what it takes for a placeholder
			return nil, fmt.Errorf(`header %d has a placeholder that is empty or unknown: such as {env.NAME} and {file.PATH} are known, and \{ is a brace`, i+1)
		}
	}
	return headers, nil
}
