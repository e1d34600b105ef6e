package integration

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// selector is what an expression of PromQL asks for: a metric, its labels, and
// the labels by which the series are grouped around it.
type selector struct {
	metric   string
	matchers []matcher
	groups   []string
}

// matcher is a condition on a label, such as kind="tools".
type matcher struct{ label, op, value string }

// aggregations and functions are those that expressions here may use.
var (
	aggregations = []string{"avg", "count", "max", "min", "sum"}
	functions    = []string{"absent", "histogram_quantile", "increase", "rate"}
	binary       = []string{"and", "or", "unless"}
)

// word matches one word of PromQL: a string, a range, a number, a name, or an
// operator.
var word = regexp.MustCompile(`^(?:"(?:[^"\\]|\\.)*"|\[[^\]]*\]|[0-9][0-9.]*|[a-zA-Z_:][a-zA-Z0-9_:]*|=~|!~|!=|==|<=|>=|[-+*/<>=(){},])`)

var (
	name     = regexp.MustCompile(`^[a-zA-Z_:][a-zA-Z0-9_:]*$`)
	timeSpan = regexp.MustCompile(`^\[(?:[0-9]+[smhdw]|\$__rate_interval)\]$`)
)

// expression reads the part of PromQL that dashboards and rules here are
// written in. What it does not know is an error, so that nothing goes unread.
type expression struct {
	words     []string
	scopes    [][]string // the groups of the open parentheses
	selectors []selector
}

// readExpression returns what an expression asks for.
func readExpression(text string) ([]selector, error) {
	var e expression
	for text = strings.TrimSpace(text); text != ""; text = strings.TrimSpace(text) {
		w := word.FindString(text)
		if w == "" {
			return nil, fmt.Errorf("reading expression at %q", text)
		}
		e.words, text = append(e.words, w), text[len(w):]
	}
	for len(e.words) > 0 {
		if err := e.read(e.next()); err != nil {
			return nil, err
		}
	}
	if len(e.scopes) > 0 {
		return nil, errors.New("a parenthesis is not closed")
	}
	if len(e.selectors) == 0 {
		return nil, errors.New("the expression asks for no metric")
	}
	return e.selectors, nil
}

// next takes the next word, "" at the end.
func (e *expression) next() string {
	if len(e.words) == 0 {
		return ""
	}
	w := e.words[0]
	e.words = e.words[1:]
	return w
}

func (e *expression) peek() string {
	if len(e.words) == 0 {
		return ""
	}
	return e.words[0]
}

func (e *expression) read(w string) error {
	switch {
	case w == "(":
		e.scopes = append(e.scopes, nil)
	case w == ")":
		if len(e.scopes) == 0 {
			return errors.New("a parenthesis is closed that was not opened")
		}
		e.scopes = e.scopes[:len(e.scopes)-1]
	case w == "{":
		return errors.New("a selector has no metric")
	case w[0] == '[':
		if !timeSpan.MatchString(w) {
			return fmt.Errorf("%s is no range", w)
		}
	case name.MatchString(w):
		return e.readName(w)
	}
	return nil
}

// readName reads an aggregation, a function or a selector.
func (e *expression) readName(w string) error {
	switch {
	case slices.Contains(binary, w):
		return nil
	case slices.Contains(aggregations, w):
		var groups []string
		if e.peek() == "by" {
			e.next()
			var err error
			if groups, err = e.readGroups(); err != nil {
				return fmt.Errorf("reading the groups of %s: %w", w, err)
			}
		}
		return e.open(w, groups)
	case e.peek() == "(":
		if !slices.Contains(functions, w) {
			return fmt.Errorf("%s is a function of which this test knows nothing", w)
		}
		return e.open(w, nil)
	}
	s := selector{metric: w, groups: slices.Concat(e.scopes...)}
	if e.peek() == "{" {
		e.next()
		var err error
		if s.matchers, err = e.readMatchers(); err != nil {
			return fmt.Errorf("reading the selector of %s: %w", w, err)
		}
	}
	e.selectors = append(e.selectors, s)
	return nil
}

// open reads the parenthesis after a function.
func (e *expression) open(w string, groups []string) error {
	if got := e.next(); got != "(" {
		return fmt.Errorf("%s is followed by %q", w, got)
	}
	e.scopes = append(e.scopes, groups)
	return nil
}

// readGroups reads the labels after by.
func (e *expression) readGroups() (labels []string, err error) {
	for sep := "("; ; sep = "," {
		if w := e.next(); w != sep {
			if w == ")" && len(labels) > 0 {
				return labels, nil
			}
			return nil, fmt.Errorf("%q stands where %q should", w, sep)
		}
		label := e.next()
		if !name.MatchString(label) {
			return nil, fmt.Errorf("%q is no label", label)
		}
		labels = append(labels, label)
	}
}

// readMatchers reads the conditions between braces, the first of which is
// open.
func (e *expression) readMatchers() (matchers []matcher, err error) {
	for {
		m := matcher{label: e.next(), op: e.next()}
		if !name.MatchString(m.label) || !slices.Contains([]string{"=", "!=", "=~", "!~"}, m.op) {
			return nil, fmt.Errorf("%s%s is no condition", m.label, m.op)
		}
		if m.value, err = strconv.Unquote(e.next()); err != nil {
			return nil, fmt.Errorf("reading the value of %s: %w", m.label, err)
		}
		matchers = append(matchers, m)
		switch w := e.next(); w {
		case "}":
			return matchers, nil
		case ",":
		default:
			return nil, fmt.Errorf("%q follows the value of %s", w, m.label)
		}
	}
}

// values returns the values that a condition names: one, or the alternatives
// of a regular expression. There are none if a dashboard's variable says which.
func (m matcher) values() []string {
	switch {
	case strings.Contains(m.value, "$"):
		return nil
	case strings.HasSuffix(m.op, "~"):
		return strings.Split(m.value, "|")
	}
	return []string{m.value}
}

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

// check returns an error unless all that an expression asks for is there, and
// those labels are on every series that comes out.
func (o offer) check(text string, labels ...string) error {
	selectors, err := readExpression(text)
	if err != nil {
		return err
	}
	for _, s := range selectors {
		offered, known := o[s.metric]
		if !known {
			return fmt.Errorf("there is no metric %s", s.metric)
		}
		for _, label := range slices.Concat(s.groups, labels) {
			if _, known := offered[label]; !known {
				return fmt.Errorf("%s has no label %s", s.metric, label)
			}
		}
		for _, label := range labels {
			if len(s.groups) > 0 && !slices.Contains(s.groups, label) {
				return fmt.Errorf("%s is not grouped by %s", s.metric, label)
			}
		}
		for _, m := range s.matchers {
			values, known := offered[m.label]
			if !known {
				return fmt.Errorf("%s has no label %s", s.metric, m.label)
			}
			for _, value := range m.values() {
				if values != nil && !values[value] {
					return fmt.Errorf("the label %s of %s is never %q", m.label, s.metric, value)
				}
			}
		}
	}
	return nil
}
