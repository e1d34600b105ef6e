package probe

import (
	"fmt"
	"slices"
	"strings"
)

// oddities are what is odd about a server's answers, though they can be read.
type oddities struct {
	deviations []string
	coding     string
}

// note takes what is odd about an answer.
func (o *oddities) note(a *answer) {
	for _, text := range a.deviations {
		if !slices.Contains(o.deviations, text) {
			o.deviations = append(o.deviations, text)
		}
	}
	if o.coding == "" {
		o.coding = shown(a.coding)
	}
}

func judgeOddities(r *Report) []Finding {
	var all []Finding
	if r.Coding != "" {
		all = append(all, Finding{Costs, fmt.Sprintf("It answers in %s, which nobody asked for. Such a list lets no caller in, and is not kept.", r.Coding), ""})
	}
	if len(r.Deviations) > 0 {
		all = append(all, Finding{Note, fmt.Sprintf("It writes what neither JSON-RPC nor MCP has: %s. The cache reads that as clients do, and gives lists without it.", strings.Join(r.Deviations, ", ")), ""})
	}
	if names, n := r.lists(func(_ *Era, l *List) bool { return l.EmptyCursor }); n > 0 {
		all = append(all, Finding{Note, fmt.Sprintf("The last page has an empty cursor: %s. The cache asks once more each time, and gives the list without it.", names), ""})
	}
	said := map[string]bool{}
	r.each(func(_ *Era, l *List) {
		text := fmt.Sprintf("Items of %s have one name: %s. They are kept as they are; what a client does with them is its own affair.", l.Kind, strings.Join(l.Repeated, ", "))
		if len(l.Repeated) > 0 && !said[text] {
			said[text] = true
			all = append(all, Finding{Note, text, ""})
		}
	})
	return all
}
