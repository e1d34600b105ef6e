package mcpcache

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// Ways in which the upstream fails.
const (
	faultStatus  = "503 with an empty list"
	faultBusy    = "429"
	faultError   = "error of the handler"
	faultAbort   = "abort before the answer"
	faultHang    = "hang"
	faultCut     = "cut in the middle"
	faultRPC     = "JSON-RPC error"
	faultGarbage = "garbage"
	faultRPC400  = "JSON-RPC error with 400"
	faultPage    = "sign-in page with 200"
	faultMore    = "an answer and more"
	faultVersion = "an answer of JSON-RPC 1.0"
)

var modelFaults = []string{
	faultStatus, faultBusy, faultError, faultAbort, faultHang, faultCut, faultRPC, faultGarbage,
	faultRPC400, faultPage, faultMore, faultVersion,
}

// fault is one way of failing, for the feed, the clients or both.
type fault struct {
	mode          string
	feed, clients bool
	lists         bool          // only lists fail
	repaired      chan struct{} // closed when it is over
}

// beforeAnswer reports whether the upstream fails before it has decided anything.
func (f *fault) beforeAnswer() bool {
	if f == nil {
		return false
	}
	switch f.mode {
	case faultCut, faultRPC, faultGarbage, faultRPC400, faultPage, faultMore, faultVersion:
		return false
	}
	return true
}

// who matches the requests of the feed or of clients.
func who(a *arrival, feed, clients bool) bool { return a.feed() && feed || !a.feed() && clients }

func (u *modelUpstream) faultOf(a *arrival) *fault {
	if a.method == "notifications/initialized" && u.w.cfg.late {
		return nil // the session would never have lists
	}
	for _, f := range u.faults {
		if who(a, f.feed, f.clients) && (a.list || !f.lists) {
			return f
		}
	}
	return nil
}

// repair ends all faults.
func (u *modelUpstream) repair() {
	u.noteHaste()
	for _, f := range u.faults {
		close(f.repaired)
	}
	u.faults = nil
}

// hold keeps answers to lists back. What they say is settled before.
type hold struct {
	feed, clients bool
	left          int  // how many more answers are held
	inside        bool // in the middle of the body, not before the header
	released      chan struct{}
}

func (u *modelUpstream) holdOf(a *arrival) *hold {
	for _, h := range u.holds {
		if a.list && h.left > 0 && who(a, h.feed, h.clients) {
			h.left--
			return h
		}
	}
	return nil
}

// sluggishAt reports whether answers are being held back, or none comes, or whether that
// has ended at the very moment at which a request began: others may have waited for an
// answer for a second, and who joins them then waits no more.
func (u *modelUpstream) sluggishAt(began time.Time) bool {
	return u.sluggish() || u.hastened.Equal(began)
}

// noteHaste records that answers are about to be held back no more.
func (u *modelUpstream) noteHaste() {
	if u.sluggish() {
		u.hastened = time.Now()
	}
}

func (u *modelUpstream) sluggish() bool {
	return len(u.holds) > 0 || slices.ContainsFunc(u.faults, func(f *fault) bool { return f.mode == faultHang })
}

func (u *modelUpstream) release() {
	u.noteHaste()
	for _, h := range u.holds {
		close(h.released)
	}
	u.holds = nil
}

// reply is one answer of the upstream.
type reply struct {
	up      *modelUpstream
	a       *arrival
	status  int
	body    []byte // one JSON-RPC message
	session string
	page    *page
	// isResult says that the body is a result; changed that the call has changed
	// the lists of changedKind.
	isResult, changed bool
	changedKind       revision.Kind

	before []*notice // sent on the same stream before the answer
	events bool      // it is a stream
	stream *modelStream
	fault  *fault
	hold   *hold
	sent   *sent
}

func (p *reply) changes(k revision.Kind) { p.changed, p.changedKind = true, k }

func (p *reply) result(raw []byte) {
	p.isResult = true
	p.body = fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":%s}`, p.a.id, raw)
}

func (p *reply) fail(code int, message string) {
	if p.a.modern() {
		p.status = http.StatusBadRequest
	}
	p.body = fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q}}`, p.a.id, code, message)
}

func (p *reply) refuse(status int) {
	p.status = status
	p.body = []byte("refused")
}

// deny refuses what was asked for.
func (p *reply) deny(status int) {
	if status == http.StatusOK {
		p.fail(-32003, "not for you")
		return
	}
	p.refuse(status)
}

// unknownSession says that the session is not known: with the status of the
// protocol, with another, or with an error alone. Feeds are told by the protocol.
func (p *reply) unknownSession(status int) {
	if status != http.StatusOK || p.a.feed() || p.a.http != http.MethodPost || p.a.id == nil {
		p.refuse(http.StatusNotFound)
		if !p.a.feed() && status != http.StatusOK {
			p.status = status
		}
		return
	}
	p.fail(unknownSession, "Session not found")
}

// unknownSession is the error of a server that does not know a session.
const unknownSession = -32001

var errModel = errors.New("the model upstream fails")

// deliver sends the answer.
func (p *reply) deliver(rw http.ResponseWriter, r *http.Request) error {
	if p.hold != nil && !p.hold.inside && !p.wait(r, p.hold.released) {
		return p.error(http.StatusGatewayTimeout)
	}
	if p.fault != nil {
		return p.deliverFault(rw, r)
	}
	if p.stream != nil && p.status == http.StatusOK {
		return p.stream.run(rw, r, p)
	}
	for key, value := range map[string]string{
		"Mcp-Session-Id": p.session, "Content-Type": p.media(), "WWW-Authenticate": p.challenge(),
	} {
		if value != "" {
			rw.Header().Set(key, value)
		}
	}
	pieces := p.pieces()
	if p.media() == "application/json" && p.up.w.draw(2, "content length", p.a.serial) == 0 {
		rw.Header().Set("Content-Length", strconv.Itoa(len(p.body)))
	}
	p.begin(rw, p.status)
	for i, piece := range pieces {
		last := i == len(pieces)-1
		if last && p.hold != nil && p.hold.inside {
			p.up.w.begins(p)
			if !p.wait(r, p.hold.released) {
				return p.error(http.StatusGatewayTimeout)
			}
		}
		if last && p.page != nil {
			p.up.w.delivers(p.a, p.page)
		}
		if last {
			p.up.w.answered(p)
		}
		if err := p.write(rw, piece); err != nil {
			return err
		}
	}
	return nil
}

func (p *reply) challenge() string {
	if p.status == http.StatusUnauthorized {
		return "Bearer"
	}
	return ""
}

func (p *reply) media() string {
	switch {
	case p.status != http.StatusOK && p.status != http.StatusBadRequest:
		return ""
	case p.before != nil, p.events:
		return "text/event-stream"
	}
	return "application/json"
}

// pieces is what is written one after the other.
func (p *reply) pieces() [][]byte {
	if p.media() == "text/event-stream" {
		var pieces [][]byte
		for _, n := range p.before {
			pieces = append(pieces, p.up.w.split(n.event(), n.id, p.a.serial)...)
		}
		event := fmt.Appendf(nil, "data: %s\n\n", p.body)
		if p.events {
			return append(pieces, p.up.w.split(event, p.a.serial)...)
		}
		return append(pieces, event)
	}
	half := len(p.body) / 2
	return [][]byte{p.body[:half], p.body[half:]}
}

func (p *reply) deliverFault(rw http.ResponseWriter, r *http.Request) error {
	switch p.fault.mode {
	case faultStatus:
		rw.Header().Set("Content-Type", "application/json")
		p.begin(rw, http.StatusServiceUnavailable)
		return p.write(rw, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{"tools":[],"prompts":[]}}`, p.a.id))
	case faultBusy:
		rw.Header().Set("Retry-After", "3")
		p.begin(rw, http.StatusTooManyRequests)
		return nil
	case faultHang:
		p.wait(r, p.fault.repaired)
	case faultAbort:
		p.abort()
	case faultCut, faultGarbage:
		rw.Header().Set("Content-Type", "application/json")
		p.begin(rw, http.StatusOK)
		if err := p.write(rw, p.body[:len(p.body)/2]); err != nil || p.fault.mode == faultGarbage {
			return err
		}
		p.abort()
	case faultPage:
		rw.Header().Set("Content-Type", "text/html")
		p.begin(rw, http.StatusOK)
		return p.write(rw, []byte("<html><title>Sign in</title></html>"))
	case faultMore, faultVersion:
		body := append(bytes.Clone(p.body), "{}"...)
		if p.fault.mode == faultVersion {
			body = bytes.Replace(p.body, []byte(`"2.0"`), []byte(`"1.0"`), 1)
		}
		rw.Header().Set("Content-Type", "application/json")
		p.begin(rw, p.status)
		if p.fault.mode == faultMore { // its beginning is that of a result
			p.up.w.begins(p)
		}
		return p.write(rw, body)
	case faultRPC, faultRPC400:
		rw.Header().Set("Content-Type", "application/json")
		if p.session != "" { // that is no session to be let in
			rw.Header().Set("Mcp-Session-Id", p.session)
		}
		status := http.StatusOK
		if p.fault.mode == faultRPC400 {
			status = http.StatusBadRequest
		}
		p.begin(rw, status)
		return p.write(rw, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":"no"}}`, p.a.id))
	}
	return p.error(http.StatusBadGateway)
}

// wait waits for a channel to be closed; it reports whether the request lasts.
func (p *reply) wait(r *http.Request, c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	case <-r.Context().Done():
		return false
	}
}

func (p *reply) begin(rw http.ResponseWriter, status int) {
	p.up.w.mu.Lock()
	p.sent.status, p.sent.begun = status, p.up.w.known.next()
	p.up.w.mu.Unlock()
	rw.WriteHeader(status)
}

func (p *reply) write(rw http.ResponseWriter, b []byte) error {
	p.up.w.mu.Lock()
	p.sent.body = append(p.sent.body, b...)
	p.up.w.mu.Unlock()
	if _, err := rw.Write(b); err != nil {
		return err
	}
	return http.NewResponseController(rw).Flush()
}

func (p *reply) abort() {
	p.up.w.mu.Lock()
	p.sent.aborted = true
	p.up.failedAt = time.Now()
	p.up.w.mu.Unlock()
	panic(http.ErrAbortHandler)
}

func (p *reply) error(status int) error {
	p.up.w.mu.Lock()
	p.sent.err, p.sent.failed = true, true
	p.up.failedAt = time.Now()
	p.up.w.mu.Unlock()
	return caddyhttp.Error(status, errModel)
}
