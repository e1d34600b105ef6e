package probe

import "fmt"

// judgeRedirect is about servers that redirect the URL to the same with a slash more, or
// less, at its end.
func judgeRedirect(r *Report) []Finding {
	if r.RedirectsTo == "" {
		return nil
	}
	return []Finding{{Note, fmt.Sprintf("It redirects %s to %s. Both are one endpoint for the cache. "+
		"Name the second in the Caddyfile, and have clients use its path: that saves each of their requests a redirect.", r.URL, r.RedirectsTo), ""}}
}
