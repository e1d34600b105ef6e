package probe

import (
	"fmt"
	"strconv"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// judgeSize says what models pay, and how lists come.
func judgeSize(r *Report) []Finding {
	var all []Finding
	var tools *List
	r.each(func(_ *Era, l *List) {
		if l.kind == revision.Tools && (tools == nil || l.Bytes > tools.Bytes) {
			tools = l
		}
	})
	if tools != nil && tools.Largest != nil {
		text := fmt.Sprintf("A model pays about %s tokens for the tools (a token for every four bytes). The largest is %s, with %s.",
			count(tools.Tokens), tools.Largest.Name, size(int64(tools.Largest.Bytes)))
		if tools.Tokens > heavy {
			text += " That is a lot for each request to a model: fewer tools, or shorter descriptions, pay off."
		}
		all = append(all, Finding{Note, text, ""})
	}
	if names, n := r.lists(func(_ *Era, l *List) bool { return l.Pages > 1 }); n > 0 {
		all = append(all, Finding{Good, "The cache joins the pages of " + names + ": clients that ask for the first page only see all of it.", ""})
	}
	return all
}

// judgeNames is about names that keep a tool from being used.
func judgeNames(r *Report) []Finding {
	var long, odd *Names
	r.each(func(_ *Era, l *List) {
		if l.LongNames != nil && (long == nil || l.LongNames.Count > long.Count) {
			long = l.LongNames
		}
		if l.OddNames != nil && (odd == nil || l.OddNames.Count > odd.Count) {
			odd = l.OddNames
		}
	})
	var all []Finding
	if long != nil {
		all = append(all, Finding{Costs, fmt.Sprintf("%s longer than 64 characters, which model providers refuse, some with the whole session: %s.",
			plural(long.Count, "name of a tool is", "names of tools are"), long), ""})
	}
	if odd != nil {
		all = append(all, Finding{Costs, fmt.Sprintf("%s other characters than letters, digits, _ and -, which model providers refuse: %s.",
			plural(odd.Count, "name of a tool has", "names of tools have"), odd), ""})
	}
	return all
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

// count writes a number with commas.
func count(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// size writes a number of bytes.
func size(n int64) string {
	switch {
	case n < 10_000:
		return count(n) + " bytes"
	case n < 10_000_000:
		return count(n/1000) + " kB"
	}
	return count(n/1_000_000) + " MB"
}

// period writes a number of milliseconds.
func period(ms int64) string {
	d := time.Duration(min(ms, int64(10*365*24*time.Hour/time.Millisecond))) * time.Millisecond
	for _, unit := range []struct {
		length    time.Duration
		one, many string
	}{{24 * time.Hour, "day", "days"}, {time.Hour, "hour", "hours"}, {time.Minute, "minute", "minutes"}, {time.Second, "second", "seconds"}} {
		if d >= unit.length && d%unit.length == 0 {
			return plural(int(d/unit.length), unit.one, unit.many)
		}
	}
	return d.String()
}

// latency writes milliseconds.
func latency(ms float64) string {
	if ms >= 1000 {
		return strconv.FormatFloat(ms/1000, 'f', 1, 64) + " s"
	}
	return strconv.FormatFloat(ms, 'f', 0, 64) + " ms"
}
