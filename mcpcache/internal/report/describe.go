package report

import (
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/feed"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// Status is how a handler is.
type Status struct {
	Name string `json:"name"`
	// Upstream is the URL of the server, or "stdio" and the command of a program; left out of a
	// toolkit.
	Upstream string `json:"upstream,omitempty"`
	// Upstreams are the URLs of all replicas, Upstream first, if there are several.
	Upstreams []string `json:"upstreams,omitempty"`
	// Servers are those of a toolkit, in order. Each has a status of its own, too.
	Servers []Server `json:"servers,omitempty"`
	// Conflicts are what clients of a toolkit are not given as a server has it: the first
	// hundred, and how many more there are.
	Conflicts     []Conflict `json:"conflicts,omitempty"`
	MoreConflicts int        `json:"more_conflicts,omitempty"`
	// Sessions is for how many sessions of a toolkit's clients anything is open; absent if
	// it is none.
	Sessions int `json:"sessions,omitempty"`
	// Listeners is how many of a toolkit's clients listen for changes; absent if it is none.
	Listeners int `json:"listeners,omitempty"`
	// Program is how the server is, if it is a program.
	Program *ProgramStatus `json:"program,omitempty"`
	// Fleet is how those are together that share a store; absent if it is this one's own.
	Fleet *Fleet `json:"fleet,omitempty"`
	// Ready is false until there is a copy of every list.
	Ready bool       `json:"ready"`
	Feeds []Feed     `json:"feeds"`
	Kinds []Snapshot `json:"kinds"`
	// Rules and Views are of who may see what; absent if there are no rules.
	Rules []Rule `json:"rules,omitempty"`
	Views []View `json:"views,omitempty"`
	// Warnings are of requests, of the server's answers, and of rules.
	Warnings []string `json:"warnings,omitempty"`
}

// Feed is how a feed is.
type Feed struct {
	Era       string     `json:"era"`
	Revision  string     `json:"revision"`
	State     feed.State `json:"state"`
	Since     time.Time  `json:"since"`
	Listening bool       `json:"listening"`
	// Unanswered is how many requests of the server got no answer.
	Unanswered int64 `json:"unanswered"`
	// Silent are the kinds whose lists have changed without a notice.
	Silent []string `json:"changes_without_notice,omitempty"`
	// InVain are the kinds of which changes are announced that are none.
	InVain []string `json:"notices_without_change,omitempty"`
	// NotOffered are the kinds that the server does not have.
	NotOffered []string   `json:"not_offered,omitempty"`
	Failure    *Failure   `json:"last_failure,omitempty"`
	Next       *time.Time `json:"next_refresh,omitempty"`
}

// Failure is the last failure of a feed that has not been made good.
type Failure struct {
	Stage string `json:"stage"`
	// Message is a few plain words.
	Message string    `json:"message"`
	At      time.Time `json:"at"`
}

// Snapshot is the feeds' copy of a kind at a revision.
type Snapshot struct {
	Kind     string  `json:"kind"`
	Revision string  `json:"revision"`
	Items    int     `json:"items"`
	Bytes    int     `json:"bytes"`
	Digest   string  `json:"digest"`
	Age      float64 `json:"age_seconds"`
	// TTL is that of an answer with it now: at most 0 once a change was announced.
	TTL float64 `json:"ttl_seconds"`
	// Uncacheable is why the list is never answered from the cache while the
	// upstream delivers.
	Uncacheable string `json:"uncacheable,omitempty"`
	Hits        uint64 `json:"hits"`
}

// Describe tells how the handler is.
func Describe(source Source, now time.Time) Status {
	status := Status{
		Name: source.Name(), Upstream: source.Upstream(),
		Ready: source.Ready(), Feeds: []Feed{}, Kinds: []Snapshot{},
	}
	if replicas := source.Replicas(); len(replicas) > 1 {
		status.Upstreams = replicas
	}
	status.Program, status.Fleet = describeProgram(source), describeFleet(source)
	for _, f := range source.Feeds().All() {
		s := f.Status()
		status.Feeds = append(status.Feeds, describeFeed(s, source))
		status.describeLists(source, s.Revision, now)
	}
	if t := source.Toolkit(); t != nil {
		status.describeLists(source, revision.LatestModern, now) // they are joined for this
		status.describeToolkit(t)
	}
	status.warn(source)
	describeRules(&status, source)
	return status
}

// warn tells what is odd about requests and the server's answers.
func (status *Status) warn(source Source) {
	status.Warnings = append(status.Warnings, source.Remarks()...)
	if f := status.Fleet; f != nil && len(f.OtherSecrets) > 0 {
		status.Warnings = append(status.Warnings, fmt.Sprintf("the Caddys do not have the same secrets: %s cannot open the sessions, cursors and stored lists of %s; give all the same secret_file, or one storage of Caddy", strings.Join(f.OtherSecrets, ", "), f.Name))
	}
	for _, k := range revision.Kinds() {
		if e := Newest(source, k); e != nil && len(e.Body.Repeated) > 0 {
			status.Warnings = append(status.Warnings, fmt.Sprintf("%s has items of one name, and is kept as it is: %s", k, strings.Join(e.Body.Repeated, ", ")))
		}
	}
}

// describeLists adds the lists that there are at a revision.
func (status *Status) describeLists(source Source, r revision.Revision, now time.Time) {
	for _, k := range revision.Kinds() {
		if e := source.Pinned(r, k); e != nil {
			status.Kinds = append(status.Kinds, Snapshot{
				Kind: k.String(), Revision: e.Revision.String(),
				Items: e.Body.Items, Bytes: len(e.Body.Bytes), Digest: hex.EncodeToString(e.Body.Digest[:]),
				Age: e.Age(now).Seconds(), TTL: source.Left(e, now).Seconds(),
				Uncacheable: uncacheable(e), Hits: source.Hits(e.Revision, k),
			})
		}
	}
}

func describeFeed(s feed.Status, source Source) Feed {
	status := Feed{
		Era: s.Revision.Era().String(), Revision: s.Revision.String(),
		State: s.State, Since: s.Since, Listening: s.Listening, Unanswered: s.Unanswered,
	}
	if s.Failure != nil {
		status.Failure = &Failure{Stage: s.Failure.Stage, Message: plainly(source, s.Failure.Err), At: s.Failure.At}
	}
	for _, k := range s.Silent {
		status.Silent = append(status.Silent, k.String())
	}
	for _, k := range s.InVain {
		status.InVain = append(status.InVain, k.String())
	}
	for _, k := range s.NotOffered {
		status.NotOffered = append(status.NotOffered, k.String())
	}
	if !s.Next.IsZero() {
		status.Next = &s.Next
	}
	return status
}

// ttlZero is why a list is never fresh: the upstream says so, and no min_ttl
// says otherwise.
const ttlZero = "ttlMs 0"

// uncacheable returns why an entry is never answered with while the upstream
// delivers, or "" if it is. A list without ttlMs has the operator's lifetime,
// which is more than 0.
func uncacheable(e *cache.Entry) string {
	if e.Lifetime == 0 {
		return ttlZero
	}
	return ""
}
