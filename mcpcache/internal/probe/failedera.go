package probe

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	feeds "github.com/caddy-mcp/mcp-cache/mcpcache/internal/client"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/outage"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// legacyOnly is the option that keeps the cache from asking in the modern era.
const legacyOnly = "eras legacy"

// FailedEra is an era in which the server gave no usable answer, and did not say either
// that it does not speak it.
type FailedEra struct {
	Era string `json:"era"`
	// Code is one word for programs, one of those of [Trouble].
	Code string `json:"code"`
	// Reason is why, in a few words.
	Reason string `json:"reason"`
}

// failure is why no conversation of an era could be opened.
type failure struct {
	era revision.Era
	err error
}

// notSpoken reports whether the server does not speak the era. That is decided as the
// feeds of a cache do, see [feeds.UnsupportedError]: status calls an era "not offered"
// where check does.
func (f failure) notSpoken() bool {
	if _, ok := errors.AsType[*otherRevisionError](f.err); ok {
		return true
	}
	refused, ok := errors.AsType[*refusedError](f.err)
	if !ok || refused.method == initialized {
		return false
	}
	a := refused.answer
	return feeds.DefiniteRefusal(a.status) || a.status == http.StatusOK && a.rpc != nil && a.hasID
}

// asked reports whether there was time to find out.
func (f failure) asked() bool {
	return !errors.Is(f.err, errOutOfTime) && !errors.Is(f.err, context.Canceled)
}

// failedEras returns the eras that fail.
func (x *examination) failedEras() []FailedEra {
	var failed []FailedEra
	for _, f := range x.failures {
		if x.isClosed(f) {
			x.report.Closed = true
			continue
		}
		if f.asked() && !f.notSpoken() {
			failed = append(failed, FailedEra{f.era.String(), x.troubleOf(f.err).Code, x.reason(f.err)})
		}
	}
	return failed
}

// isClosed reports whether a server that speaks the legacy era closed the connection
// instead of saying that it does not speak the modern one.
func (x *examination) isClosed(f failure) bool {
	return f.era == revision.Modern && len(x.report.Eras) > 0 && outage.IsCut(f.err)
}

// judgeClosed is about such servers.
func judgeClosed(r *Report) []Finding {
	if !r.Closed {
		return nil
	}
	return []Finding{{Note, "The connection was closed at server/discover, so the modern era counts as not offered. " +
		"Some servers end over a request that they do not know; with this option the cache never sends it.", legacyOnly}}
}

// decisive returns the failure that says most: the last one that is not about the era.
func (x *examination) decisive() failure {
	last := x.failures[len(x.failures)-1]
	if first := x.failures[0]; last.notSpoken() && !first.notSpoken() {
		return first
	}
	return last
}

// refused reports whether the server lets nobody in without other credentials.
func (f FailedEra) refused() bool { return f.Code == "unauthorized" || f.Code == "forbidden" }

// Words say what is wrong, and what to do, of a server whose name or "It" goes before
// them, and which speaks the other era.
func (f FailedEra) Words() string {
	other := revision.Legacy
	if f.Era == other.String() {
		other = revision.Modern
	}
	what, do := "fails", "look into the server's log"
	if f.refused() {
		what, do = "refuses this caller", "give the credentials that it wants with --header"
	}
	return fmt.Sprintf("%s in the %s era (%s), not in the %s one: %s", what, f.Era, f.Reason, other, do)
}

// openEra returns " in the … era" if the server lets this caller in there only.
func (r *Report) openEra() string {
	for _, f := range r.FailedEras {
		if f.refused() && len(r.Eras) > 0 {
			return " in the " + r.Eras[0].Era + " era"
		}
	}
	return ""
}

func judgeFailedEras(r *Report) []Finding {
	all := make([]Finding, 0, len(r.FailedEras))
	for _, f := range r.FailedEras {
		all = append(all, Finding{Note, "It " + f.Words() + ". Nothing of that era is cached until it answers.", ""})
	}
	return all
}
