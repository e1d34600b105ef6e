package command

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/terminal"
)

// writeTable writes rows of cells below each other, for people. The first row
// is the heading.
func writeTable(out io.Writer, rows [][]string) error {
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		for _, cell := range row {
			fmt.Fprint(w, printable(cell), "\t")
		}
		fmt.Fprintln(w)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for line := range strings.Lines(table.String()) {
		if _, err := fmt.Fprintln(out, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

// headed begins a table of at most so many rows below its heading.
func headed(rows int, heading ...string) [][]string {
	return append(make([][]string, 0, 1+rows), heading)
}

// printable makes one line of a text that the upstream may have written.
func printable(text string) string { return terminal.Printable(text) }

// shorten cuts a text to at most so many characters.
func shorten(text string, limit int) string { return terminal.Shorten(text, limit) }

// seconds writes a duration in whole seconds.
func seconds(d time.Duration) string { return d.Round(time.Second).String() }
