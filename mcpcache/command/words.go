package command

import (
	"errors"
	"strings"
)

// splitWords splits a command line into words as a POSIX shell does (Shell Command Language,
// section 2.2, "Quoting"): single and double quotes and backslashes count, and nothing else. No
// variable, pattern or operator has a meaning.
func splitWords(line string) (words []string, err error) {
	var word strings.Builder
	var quote rune // that is open, or 0
	escaped, begun := false, false
	for _, c := range line {
		switch {
		case escaped:
			escaped = false
			if quote == '"' && !strings.ContainsRune("\"\\$`\n", c) {
				word.WriteByte('\\')
			}
			if c != '\n' { // which goes on in the next line
				word.WriteRune(c)
				begun = true
			}
		case c == '\\' && quote != '\'':
			escaped = true
		case c == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(c)
		case c == '\'' || c == '"':
			quote, begun = c, true
		case c == ' ' || c == '\t' || c == '\n':
			if begun {
				words = append(words, word.String())
			}
			word.Reset()
			begun = false
		default:
			word.WriteRune(c)
			begun = true
		}
	}
	switch {
	case quote != 0:
		return nil, errors.New("the command has a quote that does not end")
	case escaped:
		return nil, errors.New("the command ends with a backslash")
	case begun:
		words = append(words, word.String())
	}
	if len(words) == 0 || words[0] == "" {
		return nil, errors.New("the command is empty")
	}
	return words, nil
}
