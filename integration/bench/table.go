package main

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// table is written as Markdown. The first column is text, the others are
// figures.
type table struct {
	header []string
	rows   [][]string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// write writes the table with a title above it; nothing if it has no rows.
func (t *table) write(w io.Writer, title string) error {
	if len(t.rows) == 0 {
		return nil
	}
	widths := make([]int, len(t.header))
	for _, row := range append([][]string{t.header}, t.rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell), 4)
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n### %s\n\n", title)
	line := func(cells []string) {
		for i, cell := range cells {
			fill := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == 0 {
				cell += fill
			} else {
				cell = fill + cell
			}
			b.WriteString("| " + cell + " ")
		}
		b.WriteString("|\n")
	}
	line(t.header)
	rule := make([]string, len(t.header))
	for i, width := range widths {
		rule[i] = strings.Repeat("-", width)
		if i > 0 {
			rule[i] = rule[i][1:] + ":"
		}
	}
	line(rule)
	for _, row := range t.rows {
		line(row)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("writing table: %w", err)
	}
	return nil
}

// none stands for a figure that is not known.
const none = "n/a"

// show writes a number with that many decimals and commas between thousands.
func show(value float64, decimals int) string {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return none
	}
	text := strconv.FormatFloat(math.Abs(value), 'f', decimals, 64)
	whole, rest, found := strings.Cut(text, ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if found {
		whole += "." + rest
	}
	if value < 0 && strings.Trim(text, "0.") != "" {
		whole = "-" + whole
	}
	return whole
}

// span writes the least and the most of a figure.
func (f figure) span(decimals int) string {
	if !f.known() {
		return none
	}
	return show(f.least, decimals) + "–" + show(f.most, decimals)
}

// micros returns a duration in microseconds.
func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
