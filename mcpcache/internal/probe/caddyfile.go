package probe

import (
	"cmp"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// suggestedMinTTL is how long to keep lists whose ttlMs is 0. Where changes are
// announced the cache could keep them for longer; clients that keep lists
// themselves would miss a change for that long.
const suggestedMinTTL = time.Minute

// allAnnounced reports whether a change of each list whose ttlMs is 0 is
// announced.
func (r *Report) allAnnounced() bool {
	all := true
	r.each(func(e *Era, l *List) {
		all = all && (!isZero(e, l) || l.kind == revision.Discover || e.announces(l))
	})
	return all
}

// minTTLOption names the kinds only where others have a shorter ttlMs of their
// own, which min_ttl would overrule.
func (r *Report) minTTLOption() string {
	var kinds []string
	narrow := false
	r.each(func(e *Era, l *List) {
		if isZero(e, l) && !slices.Contains(kinds, l.Kind) {
			kinds = append(kinds, l.Kind)
		}
		narrow = narrow || l.TTL != nil && *l.TTL > 0 && *l.TTL < suggestedMinTTL.Milliseconds()
	})
	option := "min_ttl "
	if narrow {
		option += strings.Join(kinds, " ") + " "
	}
	return option + strings.TrimSuffix(suggestedMinTTL.String(), "0s")
}

// kindsOption leaves out the kinds that cannot be cached safely; "" if none is
// left.
func (r *Report) kindsOption() string {
	leaking := r.leaking()
	var kinds []string
	r.each(func(_ *Era, l *List) {
		if !leaking[l.Kind] && !slices.Contains(kinds, l.Kind) {
			kinds = append(kinds, l.Kind)
		}
	})
	if len(kinds) == 0 {
		return ""
	}
	return "kinds " + strings.Join(kinds, " ")
}

// guardOf is the guard for the credential that the first caller sent.
func guardOf(a Access) string {
	if a.bearer {
		return "guard bearer {env.MCP_TOKEN}"
	}
	return fmt.Sprintf("guard bearer {env.MCP_TOKEN} {\n\theader %s\n\tprefix off\n}", a.header)
}

// caddyfile is what to put in front of the server; "" if it is better left
// uncached.
func caddyfile(r *Report) string {
	var body strings.Builder
	add := func(comment, option string) {
		if body.Len() > 0 {
			body.WriteByte('\n')
		}
		for _, line := range wrap(comment, 68) {
			body.WriteString("\t\t# " + line + "\n")
		}
		for line := range strings.SplitSeq(option, "\n") {
			body.WriteString("\t\t" + line + "\n")
		}
	}
	keepsOut := slices.ContainsFunc(r.Eras, func(e *Era) bool { return e.KeepsOut })
	switch {
	case keepsOut && r.Closed:
		return "" // the feed would do harm in either era
	case keepsOut:
		add("The server takes one session, and the feed would keep clients out of it.", modernOnly)
	case r.Closed:
		add("The server closes the connection at server/discover, so it is not asked.", legacyOnly)
	}
	if len(r.leaking()) > 0 {
		if r.kindsOption() == "" {
			return ""
		}
		add("Without those that the server calls public and gives differently.", r.kindsOption())
	}
	if _, n := r.lists(isZero); n > 0 {
		comment := "Lists are kept although their ttlMs is 0. A change that is announced is in the cache at once; " +
			"clients that keep lists themselves may miss it for this long."
		if !r.allAnnounced() {
			comment = "Lists are kept although their ttlMs is 0. A change that is not announced is seen that much later."
		}
		if _, doubtful := r.lists(isDoubtful); doubtful > 0 && r.Access.Needed {
			comment += " The server calls them public: everybody whom it lets in is given the same."
		}
		add(comment, r.minTTLOption())
	}
	if r.Access.Needed {
		add("The token that the cache itself shows to the server. Callers show their own.", guardOf(r.Access))
	}
	for _, f := range r.Findings {
		if f.Set == "# "+r.scopeOption() {
			add("One copy for everybody. "+safeAlways+", not even for those with credentials: then take the # away.", f.Set)
		}
	}
	site := ":8080 {\n" + r.bindOption() + "\tmcp_cache " + cmp.Or(r.RedirectsTo, r.URL)
	if body.Len() == 0 {
		return site + "\n}\n"
	}
	return site + " {\n" + body.String() + "\t}\n}\n"
}

// bindOption keeps a server that only this machine can reach, and that lets in
// everybody, from everybody else; "" for other servers.
func (r *Report) bindOption() string {
	if r.Access.Needed || !OnLoopback(r.URL) {
		return ""
	}
	return "\t# The server lets in everybody on this machine; the cache would let in\n" +
		"\t# everybody who reaches it. Open it only to a network that may use the server.\n" +
		"\tbind 127.0.0.1\n\n"
}

// OnLoopback reports whether the host of a URL is this machine, whatever other
// machines there are.
func OnLoopback(of string) bool {
	u, err := url.Parse(of)
	if err != nil {
		return false
	}
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	ip, _ := netip.ParseAddr(host)
	return ip.Unmap().IsLoopback() || host == "localhost" || strings.HasSuffix(host, ".localhost")
}
