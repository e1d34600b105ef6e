package probe

import (
	"fmt"
	"strconv"
	"strings"
)

// width is how long the lines of the report may be.
const width = 78

// Text returns the report for people.
func (r *Report) Text() string {
	var out strings.Builder
	out.WriteString(r.URL + "\n")
	facts := [][2]string{{"server", r.Server}, {"speaks", strings.Join(r.Revisions, ", ") + r.eras()}, {"modern", r.closed()}, {"lets in", r.letsIn()},
		{"asked", "over " + plural(r.Connections, "connection", "connections")}}
	for _, fact := range facts {
		if fact[1] != "" {
			fmt.Fprintf(&out, "  %-8s %s\n", fact[0], fact[1])
		}
	}
	for _, e := range r.Eras {
		if rows := e.rows(); len(rows) > 1 {
			out.WriteByte('\n')
			writeTable(&out, rows)
		}
	}
	for _, part := range []struct {
		grade Grade
		title string
	}{{Good, "Good"}, {Costs, "Costs"}, {Note, "To know"}} {
		r.chapter(&out, part.grade, part.title)
	}
	if r.Cut {
		out.WriteString("\nTime ran out before everything had been asked.\n")
	}
	if r.Caddyfile != "" {
		out.WriteString("\nCaddyfile (save it under that name; \"caddy run\" in the same folder starts it)\n\n" + r.Caddyfile)
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

// closed says why the modern era is not offered, if that has to be said.
func (r *Report) closed() string {
	if r.Closed {
		return "not offered (the connection was closed at server/discover)"
	}
	return ""
}

func (r *Report) letsIn() string {
	switch {
	case !r.Access.Credentials:
		return "callers without credentials" + r.openEra()
	case r.Access.Needed:
		return "callers with credentials only"
	}
	return "callers with and without credentials"
}

// rows are the lists of one era, below their heading.
func (e *Era) rows() [][]string {
	rows := [][]string{{e.Revision, "items", "pages", "bytes", "time", "ttlMs", "cacheScope", "twice", "client", "caller"}}
	for _, l := range e.Lists {
		if l.Failure != "" {
			continue
		}
		ttl, scope, items := "none", "none", strconv.Itoa(l.Items)
		if l.TTL != nil {
			ttl = strconv.FormatInt(*l.TTL, 10)
		}
		if l.Scope != "" {
			scope = l.Scope
		}
		if l.kind.ItemsKey() == "" {
			items = "-"
		}
		rows = append(rows, []string{l.Kind, items, strconv.Itoa(l.Pages), count(l.Bytes), latency(max(l.FirstMS, l.AgainMS)),
			ttl, scope, sameness(l.Again), sameness(l.Capabilities), sameness(l.Caller)})
	}
	for _, kind := range e.NotOffered {
		rows = append(rows, []string{kind, "not offered"})
	}
	return rows
}

// writeTable writes rows below each other. One of two cells has a remark instead of
// columns.
func writeTable(out *strings.Builder, rows [][]string) {
	const numbers, ofNumbers = 1, 6 // columns that end below each other
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			if i > 0 && len(row) == 2 {
				continue
			}
			widths[i] = max(widths[i], len(cell))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			space := strings.Repeat(" ", max(0, widths[i]-len(cell)))
			if i >= numbers && i < ofNumbers {
				cell, space = space+cell, ""
			}
			line.WriteString(cell + space + "  ")
		}
		out.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
}

// sameness is a comparison in one word.
func sameness(c *Comparison) string {
	switch {
	case c == nil:
		return "-"
	case c.Same:
		return "same"
	case c.Failure != "":
		return "fails"
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
