package operate

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// offer is what expressions can ask for: metrics, their labels, and the values
// of those. A label whose values are nil may have any.
type offer map[string]map[string]map[string]bool

// add makes room for a metric and its label.
func (o offer) add(metric string, labels ...string) {
	if o[metric] == nil {
		o[metric] = make(map[string]map[string]bool)
	}
	for _, label := range labels {
		if _, known := o[metric][label]; !known {
			o[metric][label] = nil
		}
	}
}

// addValue notes that a label has that value.
func (o offer) addValue(metric, label, value string) {
	o.add(metric, label)
	if o[metric][label] == nil {
		o[metric][label] = make(map[string]bool)
	}
	o[metric][label][value] = true
}

// Parts of an expression of PromQL. Its syntax is Prometheus's to check.
var (
	besideNames = regexp.MustCompile(`\{[^{}]*\}|\[[^\[\]]*\]|\bby *\([^()]*\)|\b(?:and|or|unless)\b`)
	name        = regexp.MustCompile(`[a-zA-Z_:][a-zA-Z0-9_:]*\b *\(?`)
	selector    = regexp.MustCompile(`([a-zA-Z_:][a-zA-Z0-9_:]*)\{([^{}]*)\}`)
	condition   = regexp.MustCompile(`(\w+) *(?:=~|!~|!=|=) *"([^"]*)"`)
	grouping    = regexp.MustCompile(`\bby *\(([^()]*)\)`)
)

// check returns an error unless every metric that an expression names is there,
// with all labels by which any of it is grouped, and with those labels and values
// by which it is selected itself. The labels given have to be on every series
// that comes out.
func (o offer) check(text string, labels ...string) error {
	var groups [][]string
	for _, group := range submatches(grouping, text) {
		groups = append(groups, strings.FieldsFunc(group, func(r rune) bool { return r == ',' || r == ' ' }))
	}
	wanted := slices.Concat(append(groups, labels)...)
	asked := 0
	for _, metric := range name.FindAllString(besideNames.ReplaceAllString(text, " "), -1) {
		if strings.HasSuffix(metric, "(") {
			continue // a function
		}
		asked++
		metric = strings.TrimSpace(metric)
		if o[metric] == nil {
			return fmt.Errorf("there is no metric %s", metric)
		}
		for _, label := range wanted {
			if _, known := o[metric][label]; !known {
				return fmt.Errorf("%s has no label %s", metric, label)
			}
		}
	}
	if asked == 0 {
		return errors.New("the expression asks for no metric")
	}
	for _, label := range labels {
		if slices.ContainsFunc(groups, func(group []string) bool { return !slices.Contains(group, label) }) {
			return fmt.Errorf("the label %s is summed away", label)
		}
	}
	return o.checkConditions(text)
}

// checkConditions returns an error if a selector wants a label that is not
// there, or a value that the label never has. One that a dashboard's variable
// gives may be any.
func (o offer) checkConditions(text string) error {
	for _, s := range selector.FindAllStringSubmatch(text, -1) {
		for _, c := range condition.FindAllStringSubmatch(s[2], -1) {
			values, known := o[s[1]][c[1]]
			if !known {
				return fmt.Errorf("%s has no label %s", s[1], c[1])
			}
			for value := range strings.SplitSeq(c[2], "|") {
				if values != nil && !strings.Contains(value, "$") && !values[value] {
					return fmt.Errorf("the label %s of %s is never %q", c[1], s[1], value)
				}
			}
		}
	}
	return nil
}
