package promises

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
)

// column is one of the ways in which clients reach servers.
type column string

const (
	ofOne      column = "one server"
	ofSeveral  column = "several servers"
	ofPrograms column = "programs"
	overRedis  column = "Caddys on one Redis"
)

// columns are those of the table, each with the test that holds all promises there.
var columns = []struct {
	name column
	test string
}{
	{ofOne, "TestPromisesOfOneServer"},
	{ofSeveral, "TestPromisesOfSeveralServers"},
	{ofPrograms, "TestPromisesOfPrograms"},
	{overRedis, "TestFleetPromises"},
}

// across is a third part of each column, beside the two eras: the client speaks one era, and the
// server the other.
const across = "across"

var eras = []string{"legacy", "modern", across}

// promise is a row of the table. Its test runs in every place of every column, unless the promise says
// why it can not.
type promise struct {
	name string // as the page has it
	test func(*testing.T, *site)
	not  func(place) string // why there is no test in a place; "" or nil if there is one
	but  map[column]string  // what the page says of a column beside
}

const (
	notAcross = "The cache does not translate between eras in front of one server or program. A client of the other era gets the server's own answer."
	notLetIn  = "A program receives no credentials: whoever reaches the endpoint reaches the program. Legacy clients have sessions, which end. Modern clients have none."
	onItsOwn  = "A Caddy that cannot reach Redis hears of changes from the server alone, or when the list's time is over."
	endsHere  = "Each Caddy learns by itself that a session has ended: by a request of that session, or when the server's last acceptance is too old."
)

// promises are the rows.
var promises = []promise{
	{name: "Certain or forwarded", test: certainOrForwarded},
	{name: "Never stale after a change was announced", test: neverStale, but: map[column]string{overRedis: onItsOwn}},
	{name: "Never somebody else's list", test: neverSomebodyElses},
	{name: "Never past the server's refusal", test: neverPastRefusal, not: programsLetIn, but: map[column]string{overRedis: endsHere}},
	{name: "Byte-faithful", test: byteFaithful},
	{name: "Failure never empties a list", test: failureEmptiesNothing},
	{name: "A sick server slows nobody", test: sickServerSlowsNobody},
	{name: "Credentials do not cross", test: credentialsDoNotCross},
	{name: "Everything has a bound", test: everythingHasABound},
	{name: "A reload loses nothing", test: reloadLosesNothing},
	{name: "Calls add no work", test: callsAddNoWork},
}

func programsLetIn(p place) string {
	if p.program && caddytest.EraOf(p.clientRevision) == "modern" {
		return notLetIn
	}
	return ""
}

// cell returns in which places of a column and an era a promise has its test, and why it has none in
// others.
func (p promise) cell(in column, era string) (tested []place, whyNot []string) {
	for _, at := range placesOf(in, era) {
		why := ""
		switch {
		case !at.several && era == across:
			why = notAcross
		case p.not != nil:
			why = p.not(at)
		}
		if why == "" {
			tested = append(tested, at)
		} else {
			whyNot = append(whyNot, why)
		}
	}
	slices.Sort(whyNot)
	return tested, slices.Compact(whyNot)
}

func TestPromisesOfOneServer(t *testing.T) { testPromises(t, ofOne) }

func TestPromisesOfSeveralServers(t *testing.T) { testPromises(t, ofSeveral) }

func TestPromisesOfPrograms(t *testing.T) { testPromises(t, ofPrograms) }

func TestFleetPromises(t *testing.T) { testPromises(t, overRedis) }

// testPromises holds each promise in each place of a column.
func testPromises(t *testing.T, in column) {
	for _, p := range promises {
		t.Run(p.name, func(t *testing.T) {
			for _, era := range eras {
				tested, _ := p.cell(in, era)
				for _, at := range tested {
					t.Run(at.String(), func(t *testing.T) {
						if at.fleet {
							t.Parallel() // each Caddy is a process
						}
						p.test(t, newSite(t, at))
					})
				}
			}
		})
	}
}

// TestPromisesHaveTests prints the table with its tests. No cell is empty, and each column has its test.
func TestPromisesHaveTests(t *testing.T) {
	source, err := os.ReadFile("promises_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var matrix strings.Builder
	for _, c := range columns {
		if want := fmt.Sprintf("func %s(t *testing.T) { testPromises(t, ", c.test); strings.Count(string(source), want) != 1 {
			t.Errorf("no test %s holds the promises of %s", c.test, c.name)
		}
		for _, p := range promises {
			for _, era := range eras {
				tested, whyNot := p.cell(c.name, era)
				if len(tested)+len(whyNot) == 0 {
					t.Errorf("%s, %s, %s: there is neither a test nor a reason why not", p.name, c.name, era)
				}
				fmt.Fprintf(&matrix, "%s/%s, %s: %q %s\n", c.test, strings.ReplaceAll(p.name, " ", "_"), era, tested, strings.Join(whyNot, " "))
			}
		}
	}
	t.Logf("all cells:\n%s", matrix.String())
}

// TestPromisesOnThePage holds the page's guarantees and its table against the promises and their tests.
func TestPromisesOnThePage(t *testing.T) {
	text, err := os.ReadFile("../../mcpcache/README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, page, _ := strings.Cut(string(text), "\n## What is guaranteed\n")
	page, _, _ = strings.Cut(page, "\n## ")
	guarantees, table, found := strings.Cut(page, "\n### What holds where\n")
	if !found {
		t.Fatal(`the page has no section "What holds where" below its guarantees`)
	}
	var names []string
	for _, title := range regexp.MustCompile(`(?m)^\d+\. \*\*(.*?)\.?\*\*`).FindAllStringSubmatch(guarantees, -1) {
		names = append(names, title[1])
	}
	var rows []string
	for _, p := range promises[:min(len(names), len(promises))] {
		rows = append(rows, p.name)
	}
	if !slices.Equal(names, rows) {
		t.Errorf("the page guarantees\n%q\nand the promises are\n%q", names, rows)
	}
	if want := printTable(promises[:len(rows)]); !strings.Contains(table, want) {
		t.Errorf("the page's table is another. It has to be:\n%s", want)
	}
}

// printTable prints what holds where, with the reasons of cells without a test as notes.
func printTable(rows []promise) string {
	var notes []string
	marks := func(of []string) string {
		var numbers []string
		for _, note := range of {
			if !slices.Contains(notes, note) {
				notes = append(notes, note)
			}
			numbers = append(numbers, fmt.Sprintf(" (%d)", slices.Index(notes, note)+1))
		}
		return strings.Join(slices.Compact(numbers), "")
	}
	var text strings.Builder
	text.WriteString("| guarantee |")
	for _, c := range columns {
		_, always := promises[0].cell(c.name, across)
		fmt.Fprintf(&text, " %s%s |", c.name, marks(always))
	}
	text.WriteString("\n|" + strings.Repeat(" --- |", len(columns)+1) + "\n")
	for _, p := range rows {
		fmt.Fprintf(&text, "| %s |", p.name)
		for _, c := range columns {
			fmt.Fprintf(&text, " yes%s |", marks(p.reasons(c.name)))
		}
		text.WriteString("\n")
	}
	text.WriteString("\n")
	for n, note := range notes {
		fmt.Fprintf(&text, "- (%d) %s\n", n+1, note)
	}
	return text.String()
}

// reasons returns the notes of a promise in a column: the sentences of its places without a test, and
// what the promise says of the column. The table's head has [notAcross] for the whole column.
func (p promise) reasons(in column) (notes []string) {
	for _, era := range eras {
		_, whyNot := p.cell(in, era)
		notes = append(notes, whyNot...)
	}
	if but := p.but[in]; but != "" {
		notes = append(notes, but)
	}
	return slices.DeleteFunc(notes, func(note string) bool { return note == notAcross })
}
