package mcpcache

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// answerOrigin is where an answer came from, by its Cache-Status.
type answerOrigin int

const (
	fromUpstream answerOrigin = iota
	fromCache
	fromCacheStale
	fromSharedFetch
	refusedByRules
)

func originOf(status string) answerOrigin {
	switch {
	case strings.HasPrefix(status, "mcp_cache; hit; ") && strings.HasSuffix(status, "; detail=stale"):
		return fromCacheStale
	case strings.HasPrefix(status, "mcp_cache; hit; "):
		return fromCache
	case status == "mcp_cache; fwd=uri-miss; stored; collapsed":
		return fromSharedFetch
	case status == "mcp_cache; detail=denied":
		return refusedByRules
	}
	return fromUpstream
}

// check judges an answer that is complete. The caller holds the lock.
func (w *world) check(x *call) {
	s := w.up.sent[x.serial]
	delete(w.up.sent, x.serial)
	header := x.wrote
	if header == nil {
		header = x.header // an error, which Caddy answers with this header
	}
	status := strings.Join(header["Cache-Status"], ", ")
	w.note("%s -> %d %s %s", x, x.status, status, x.summary())
	if err := x.unpack(); err != nil && !x.cancelled && !x.aborted && x.err == nil {
		w.fail("%s: %v", x, err)
	}
	w.checkHidden(x)
	switch {
	case x.panicked != nil:
		w.fail("%s: panic: %v", x, x.panicked)
	case x.cancelled:
	case x.aborted && (s == nil || !s.aborted), x.err != nil && (s == nil || !s.err):
		w.fail("%s: failed by itself: %v", x, x.err)
	case status == "" && !x.aborted && !x.elsewhere:
		w.fail("%s: no Cache-Status", x)
	case x.err != nil || x.aborted && x.status == 0:
	case originOf(status) == refusedByRules:
		if err := w.checkRefused(x, s); err != nil {
			w.fail("%s: %v", x, err)
		}
	case originOf(status) == fromUpstream:
		w.checkForwarded(x, s)
		x.learn()
		w.errs(x)
		w.misleads(x)
		w.checkWait(x, fromUpstream)
	default:
		w.hits++
		w.checkWait(x, originOf(status))
		if err := w.checkCached(x, originOf(status), s); err != nil {
			w.fail("%s: %s: %v", x, status, err)
		}
	}
}

// unpack puts an answer that is compressed back into its form. It is to be as long as it
// says.
func (x *call) unpack() error {
	if length := x.wrote.Get("Content-Length"); length != "" && length != strconv.Itoa(x.body.Len()) {
		return fmt.Errorf("Content-Length is %s, and there are %d bytes", length, x.body.Len())
	}
	if x.wrote.Get("Content-Encoding") == "" {
		return nil
	}
	r, err := gzip.NewReader(bytes.NewReader(x.body.Bytes()))
	if err != nil {
		return fmt.Errorf("reading what is compressed: %w", err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		return fmt.Errorf("reading what is compressed: %w", err)
	}
	x.body = *bytes.NewBuffer(text)
	return nil
}

// summary is what the trace says of an answer.
func (x *call) summary() string {
	switch {
	case x.cancelled:
		return "cancelled"
	case x.aborted:
		return "aborted"
	case x.err != nil:
		return x.err.Error()
	case !x.list:
		return ""
	}
	var m struct{ Result json.RawMessage }
	if json.Unmarshal(x.message(), &m) != nil || m.Result == nil {
		return "no result"
	}
	r, err := parseResult(x.kind, m.Result)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%+v", r.state)
}

// checkForwarded makes sure that the upstream's answer came through as it was.
func (w *world) checkForwarded(x *call, s *sent) {
	switch {
	case s == nil:
		w.fail("%s: the upstream was not asked and the cache did not answer", x)
	case s.probe && x.status == http.StatusOK:
		w.fail("%s: the answer to what was asked in its place became its own", x)
	case x.rules.restrictsAny():
		if err := x.checkFiltered(s); err != nil {
			w.fail("%s: %v, with %v", x, err, x.rules)
		}
	case x.status != s.status:
		w.fail("%s: status %d became %d", x, s.status, x.status)
	case !bytes.Equal(x.body.Bytes(), s.body):
		w.fail("%s: %q became %q", x, s.body, x.body.Bytes())
	}
}

// learn has the client take note of what the upstream said to it.
func (x *call) learn() {
	switch {
	case x.method == "initialize" && x.status == http.StatusOK:
		if x.c.session != "" {
			x.c.past = append(x.c.past, x.c.session)
		}
		x.c.session = x.wrote.Get("Mcp-Session-Id")
	case x.list && x.status == http.StatusOK:
		var m struct {
			Result struct{ NextCursor *string }
		}
		if json.Unmarshal(x.message(), &m) == nil && m.Result.NextCursor != nil {
			x.c.cursors[x.kind] = *m.Result.NextCursor
		}
	}
}

// checkCached judges an answer that the upstream did not give to this request.
func (w *world) checkCached(x *call, from answerOrigin, s *sent) error {
	var m struct {
		ID     json.RawMessage
		Result json.RawMessage
	}
	switch err := json.Unmarshal(x.message(), &m); {
	case err != nil:
		return fmt.Errorf("reading answer: %w", err)
	case x.status != http.StatusOK || !x.list || x.unknown:
		return fmt.Errorf("status %d to what is no list", x.status)
	case x.verdict() == refuse:
		return fmt.Errorf("a copy was given of what is hidden by %v", x.rules)
	case string(m.ID) != x.id():
		return fmt.Errorf("id %s became %s", x.id(), m.ID)
	}
	r, err := parseResult(x.kind, m.Result)
	if err != nil {
		return err
	}
	if from == fromCache && x.kind == revision.Tools {
		x.shown = r.numbers
	}
	for _, check := range []func(*call, answerOrigin, *sent, *result) error{
		w.checkWhole, w.checkPartition, w.checkAge, w.checkVersion, w.checkSessions, w.checkDoor, w.checkAsker, w.checkOwn,
	} {
		if err := check(x, from, s, r); err != nil {
			return err
		}
	}
	return nil
}

// checkWhole is promise 6: whole versions only, and not empty for a failure.
func (w *world) checkWhole(x *call, from answerOrigin, _ *sent, r *result) error {
	first, end := 0, r.state.Of
	if x.cursor {
		var ok bool
		if first, ok = offsetOf(r.state, x.params["cursor"].(string)); !ok {
			return fmt.Errorf("the cursor belongs to another list than %+v", r.state)
		}
	}
	if r.nextCursor != nil {
		var ok bool
		if end, ok = offsetOf(r.state, *r.nextCursor); !ok {
			return fmt.Errorf("nextCursor is %q in a list of %+v", *r.nextCursor, r.state)
		}
	}
	if r.state.Blip {
		end = 0
	}
	if err := x.checkShown(r, first, end); err != nil {
		return err
	}
	switch {
	case r.state.Blip:
		if !x.at.truth.believed[believable{x.kind, r.state}] {
			return fmt.Errorf("the list became empty for a moment, which nothing confirmed")
		}
	case r.state.Rev != x.c.rev.String():
		return fmt.Errorf("the list is of revision %s", r.state.Rev)
	case w.cfg.variesCaps && from != fromCacheStale && (r.state.Of > 0 || x.kind.ItemsKey() == "") && r.state.Caps != w.clientOf(x):
		return fmt.Errorf("the list is for clients such as %q, not %q", r.state.Caps, w.clientOf(x))
	}
	return nil
}

// checkPartition is promise 3 for authorization contexts.
func (w *world) checkPartition(x *call, _ answerOrigin, _ *sent, r *result) error {
	public := r.scope == "public" || r.scope == "" && w.cfg.public
	if !public && r.state.Ctx != x.ctx {
		return fmt.Errorf("the private list of %s was given to %s", r.state.Ctx, x.ctx)
	}
	return nil
}

// checkAge is the rule of time: a fresh answer is no older than its TTL, a
// stale one no older than stale_if_error allows.
func (w *world) checkAge(x *call, from answerOrigin, _ *sent, r *result) error {
	until, delivered := x.at.truth.freshUntil[content{x.kind, r.state, r.scope}]
	if !delivered {
		return fmt.Errorf("the upstream never gave %+v with scope %q", r.state, r.scope)
	}
	if from == fromCacheStale {
		if over := x.before.at.Sub(until); over >= w.cfg.stale {
			return fmt.Errorf("it was stale for %s, and stale_if_error is %s", over, w.cfg.stale)
		}
		return nil
	}
	if !x.before.at.Before(until) {
		return fmt.Errorf("it expired %s ago", x.before.at.Sub(until))
	}
	if promised := time.Now().Add(time.Duration(r.ttl) * time.Millisecond); r.ttl > 0 && promised.After(until) {
		return fmt.Errorf("its ttlMs of %d is %s too long", r.ttl, promised.Sub(until))
	}
	return nil
}

// checkVersion is promise 2: no old list after a notice.
func (w *world) checkVersion(x *call, from answerOrigin, s *sent, r *result) error {
	version, ctx := r.state.Version, r.state.Ctx
	switch {
	case version >= x.before.floor[ctx], from == fromCacheStale && version >= x.before.stale[ctx]:
		return nil
	case from != fromCacheStale:
		return fmt.Errorf("version %d of %s is old: version %d had been announced", version, ctx, x.before.floor[ctx])
	case (s == nil || !s.failed) && time.Since(x.before.at) < promisedPatience && !w.up.sluggishAt(x.before.at) &&
		w.up.failedAt.Before(x.before.at):
		return fmt.Errorf("version %d of %s is old, and the upstream neither failed nor took its time", version, ctx)
	case version < x.before.told[ctx] && !w.cfg.staleAfterNotice:
		return fmt.Errorf("version %d of %s is old, and this caller was told of version %d", version, ctx, x.before.told[ctx])
	}
	return nil
}

// checkSessions is promises 2 and 3 for sessions that have lists of their own.
func (w *world) checkSessions(x *call, from answerOrigin, _ *sent, r *result) error {
	if o, told := x.before.own[r.state.Session]; told && r.state.Session != x.session && from != fromCacheStale &&
		(o.differs || r.state.Extra <= o.extra) {
		return fmt.Errorf("the list of session %s was given to %q", r.state.Session, x.session)
	}
	session := w.up.sessions[x.session]
	o, told := x.before.own[x.session]
	if session == nil || !told || x.session == "" || session.version[x.kind] != o.extra || w.cfg.staleAfterNotice {
		return nil
	}
	feed := feedView{x.kind, x.c.rev.String(), ""}
	switch {
	case session.extra[x.kind] == 0 && r.state.Session == x.session:
		return fmt.Errorf("session %s has no items of its own any more, as it was told", x.session)
	case session.extra[x.kind] == 0 || r.state.Session == x.session && r.state.Extra == o.extra:
	case o.differs:
		return fmt.Errorf("session %s has items of its own, and they are missing", x.session)
	case x.at.truth.feedHas[feed] == o.feedHad && !w.cfg.fleet: // else it may have what another was given
		return fmt.Errorf("session %s was told of a change of its own, and was given the feed's list", x.session)
	default:
		// Nobody can tell whose change it was: the session is an ordinary one.
		if v := (sessionView{x.kind, x.session}); x.at.truth.own[v] != nil && x.at.truth.own[v].seq == o.seq {
			delete(x.at.truth.own, v)
		}
	}
	return nil
}
