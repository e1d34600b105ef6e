package probe

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
)

// width is how long the lines of the report may be.
const width = 78

// Text returns the report for people.
func (r *Report) Text() string {
	var out strings.Builder
	out.WriteString(r.URL + "\n")
	facts := [][2]string{{"server", r.Server}, {"speaks", strings.Join(r.Revisions, ", ") + r.eras()}, {"lets in", r.letsIn()}}
	for _, fact := range facts {
		if fact[1] != "" {
			fmt.Fprintf(&out, "  %-8s %s\n", fact[0], fact[1])
		}
	}
	for _, e := range r.Eras {
		out.WriteByte('\n')
		e.table(&out)
	}
	for _, part := range []struct {
		grade Grade
		title string
	}{{Good, "Good"}, {Costs, "Costs hits"}, {Note, "To know"}} {
		r.chapter(&out, part.grade, part.title)
	}
	if r.Cut {
		out.WriteString("\nTime ran out before everything had been asked.\n")
	}
	if r.Caddyfile != "" {
		out.WriteString("\nCaddyfile\n\n" + r.Caddyfile)
	}
	return out.String()
}

// eras says in a word which eras those revisions belong to.
func (r *Report) eras() string {
	names := make([]string, 0, len(r.Eras))
	for _, e := range r.Eras {
		names = append(names, e.Era)
	}
	if len(names) == 0 {
		return ""
	}
	return " (" + strings.Join(names, " and ") + ")"
}

func (r *Report) letsIn() string {
	switch {
	case !r.Access.Credentials:
		return "callers without credentials"
	case r.Access.Needed:
		return "callers with credentials only"
	}
	return "callers with and without credentials"
}

// table shows the lists of one era, a line for each.
func (e *Era) table(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%s\titems\tpages\tbytes\tttlMs\tcacheScope\ttime\ttwice\tclient\tcaller\n", e.Revision)
	for _, l := range e.Lists {
		if l.Failure != "" {
			continue
		}
		ttl := "none"
		if l.TTL != nil {
			ttl = strconv.FormatInt(*l.TTL, 10)
		}
		scope := l.Scope
		if scope == "" {
			scope = "none"
		}
		items := strconv.Itoa(l.Items)
		if l.Largest == nil && l.kind.ItemsKey() == "" {
			items = "-"
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", l.Kind, items, l.Pages, count(l.Bytes), ttl, scope,
			latency(max(l.FirstMS, l.AgainMS)), sameness(l.Again), sameness(l.Capabilities), sameness(l.Caller))
	}
	_ = w.Flush() // the writer below never fails
}

// sameness is a comparison in one word.
func sameness(c *Comparison) string {
	switch {
	case c == nil:
		return "-"
	case c.Same:
		return "same"
	}
	return "differs"
}

// chapter shows the findings of one grade.
func (r *Report) chapter(out *strings.Builder, grade Grade, title string) {
	titled := false
	for _, f := range r.Findings {
		if f.Grade != grade {
			continue
		}
		if !titled {
			out.WriteString("\n" + title + "\n")
			titled = true
		}
		for i, line := range wrap(f.Text, width-4) {
			mark := "    "
			if i == 0 {
				mark = "  - "
			}
			out.WriteString(mark + line + "\n")
		}
		if f.Set != "" {
			option, isOptional := strings.CutPrefix(f.Set, "# ")
			option, _, _ = strings.Cut(option, " {\n")
			word := "set"
			if isOptional {
				word = "may help"
			}
			out.WriteString("    " + word + ": " + option + "\n")
		}
	}
}

// wrap breaks a text into lines of at most so many characters; longer words
// have a line of their own.
func wrap(text string, limit int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		switch {
		case line == "":
			line = word
		case len([]rune(line))+1+len([]rune(word)) <= limit:
			line += " " + word
		default:
			lines = append(lines, line)
			line = word
		}
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}
