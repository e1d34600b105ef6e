package program

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/inbound"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/jsonrpc"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/requesthint"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

const (
	sessionHeader  = "Mcp-Session-Id"
	revisionHeader = "Mcp-Protocol-Version"
)

const (
	// patience is how long an answer may be the one message that it usually is. After that it
	// becomes a stream, so that the client knows it to be on its way.
	patience = 5 * time.Second
	// keepAlive is how often a stream says that it is alive.
	keepAlive = 15 * time.Second
)

// RoundTrip answers a request as a server of Streamable HTTP does that has sessions
// (2025-11-25, "Streamable HTTP"). It implements [http.RoundTripper]: its error is that of the
// request's context, or of reading the request's body.
func (p *Program) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil {
		r.Body = http.NoBody
	}
	defer r.Body.Close()
	p.records.recall()
	allowed := "GET, POST, DELETE"
	switch version := r.Header.Get(revisionHeader); {
	case r.Method == http.MethodPost:
		return p.post(r)
	case revision.Parse(version).Era() == revision.Modern, p.modern.alone():
		allowed = "POST"
	case !known(version):
		return unknownVersion(r, version), nil
	case r.Method == http.MethodGet:
		return p.get(r), nil
	case r.Method == http.MethodDelete:
		return p.delete(r), nil
	}
	res := answer(r, http.StatusMethodNotAllowed, nil)
	res.Header.Set("Allow", allowed)
	return res, nil
}

// known reports whether a client without a header, or with that one, can be answered.
func known(version string) bool {
	return version == "" || version == beforeHTTP || revision.Parse(version) != revision.Unknown
}

func unknownVersion(r *http.Request, version string) *http.Response {
	return refuse(r, nil, jsonrpc.Refused(http.StatusBadRequest, "unknown MCP-Protocol-Version "+strconv.Quote(version)))
}

// isModernRequest reports whether a client without a session has sent the message. Such a message names
// its revision itself. Only the program may know that revision.
func isModernRequest(r *http.Request, request *message.Request) bool {
	named := revision.Parse(string(request.Meta.Revision))
	return named.Era() == revision.Modern || named == revision.Unknown && request.Meta.Revision != nil ||
		revision.Parse(r.Header.Get(revisionHeader)).Era() == revision.Modern
}

// beforeHTTP is a revision without this transport, which older programs speak.
const beforeHTTP = "2024-11-05"

const notModern = "this server has sessions: a client has to open one with initialize"

// post takes a message of a client.
func (p *Program) post(r *http.Request) (*http.Response, error) {
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return refuse(r, nil, jsonrpc.Refused(http.StatusUnsupportedMediaType, "Content-Type has to be application/json")), nil
	}
	m, refused, err := p.receive(r)
	defer m.Share.Release()
	if refused != nil || err != nil {
		return refused, err
	}
	request, version := &m.Message, r.Header.Get(revisionHeader)
	switch {
	case isModernRequest(r, request):
		return p.modern.post(r, m)
	case !known(version):
		return unknownVersion(r, version), nil
	case p.modern.alone():
		return p.modern.refuseSession(r, m), nil
	}
	if method := string(request.Method); method == "initialize" && request.ID != nil {
		return p.initialize(r, m.Body.Bytes, request)
	}
	s, refused := p.sessionOf(r, request.ID)
	if refused != nil {
		return refused, nil
	}
	switch {
	case request.Method == nil:
		err = s.answers(r.Context(), m.Body.Bytes, request.ID)
	case request.ID == nil:
		if err = s.notify(r.Context(), m.Body.Bytes, string(request.Method)); errors.Is(err, errMemory) {
			return refuse(r, nil, jsonrpc.Refused(http.StatusRequestEntityTooLarge, err.Error())), nil
		}
	default:
		return s.request(r, m)
	}
	if err != nil {
		return nil, err
	}
	return answer(r, http.StatusAccepted, nil), nil
}

// sessionOf returns the session that a request is about, or how it is refused.
func (p *Program) sessionOf(r *http.Request, id []byte) (*clientSession, *http.Response) {
	name := r.Header.Get(sessionHeader)
	if name == "" {
		return nil, refuse(r, id, jsonrpc.Refused(http.StatusBadRequest, "Mcp-Session-Id is missing: a client has to open a session with initialize"))
	}
	if s := p.session(name); s != nil {
		return s, nil
	}
	return nil, refuse(r, id, jsonrpc.Refused(http.StatusNotFound, "session has ended: the client has to open another with initialize"))
}

// maxInitialize is how many bytes of the request are kept that opens a session.
const maxInitialize = 64 << 10

// initialize opens a session.
func (p *Program) initialize(r *http.Request, body []byte, request *message.Request) (*http.Response, error) {
	id := request.ID
	if len(body) > maxInitialize {
		return refuse(r, id, jsonrpc.Refused(http.StatusRequestEntityTooLarge, "initialize is larger than 64 KiB")), nil
	}
	for _, member := range [...]string{"protocolVersion", "capabilities", "clientInfo"} {
		if _, ok := message.ValueAt(body, "params", member); !ok { // some programs end at that
			return refuse(r, id, jsonrpc.Invalid(jsonrpc.InvalidParams, "initialize has no params."+member)), nil
		}
	}
	s, err := p.newSession(bytes.Clone(body), requesthint.IsUpkeep(r.Context()))
	if err != nil {
		return p.unanswered(r, request, err), nil
	}
	said, refused, err := s.said(r.Context())
	switch {
	case r.Context().Err() != nil:
		p.forget(s) // nobody knows its id
		return nil, context.Cause(r.Context())
	case err != nil:
		p.forget(s)
		return p.unanswered(r, request, err), nil
	case refused != nil:
		p.forget(s)
		said, err := message.WithValue(refused, id, "id")
		return answer(r, http.StatusOK, said), err
	case s.shares():
		said = sharedResult(said, body)
	}
	s.noteIntroduction(said)
	res := answer(r, http.StatusOK, result(id, said))
	res.Header.Set(sessionHeader, s.id)
	return res, nil
}

// said returns the result of the session's initialize, or the answer by which the program refuses
// it: as recorded, or of a process.
func (s *clientSession) said(ctx context.Context) (result, refused []byte, err error) {
	if known, ok := s.recorded(); ok {
		s.touch()
		return known.Result, known.Refusal, nil
	}
	_, result, err = s.awake(ctx)
	if refusal, ok := errors.AsType[*refusal](err); ok {
		return nil, refusal.answer, nil
	}
	return result, nil, err
}

// request has the session's process answer a request.
func (s *clientSession) request(r *http.Request, m *inbound.Request) (*http.Response, error) {
	s.touch()
	request := &m.Message
	if own := s.keptFromProcess(request, m.Body.Bytes); own != nil {
		return answer(r, http.StatusOK, own), nil
	}
	switch own, err := s.answersAsleep(request, m.Body.Bytes); {
	case err != nil:
		return s.program.unanswered(r, request, err), nil
	case own != nil:
		return answer(r, http.StatusOK, own), nil
	}
	var calls []*call
	defer func() { s.settled(calls) }()
	subscribed := s.subscribing(request, m.Body.Bytes)
	res, err := s.slot.callProcess(r, m, func() *call {
		asked := s.program.newCall(r, m)
		asked.session, asked.answered = s, subscribed
		calls = append(calls, asked)
		s.waits(asked)
		return asked
	}, func() error { return s.remember(string(request.Method), m.Body.Bytes) })
	switch {
	case err == nil || r.Context().Err() != nil:
		return res, err
	case subscribed != nil:
		subscribed(nil)
	}
	if errors.Is(err, errOther) {
		s.program.forget(s)
		return refuse(r, request.ID, jsonrpc.Refused(http.StatusNotFound, err.Error())), nil
	}
	return s.program.unanswered(r, request, err), nil
}

// callProcess has the process answer a request. If it has ended before it was sent the request, another
// one does. newCall is called for each of them; begin before it is sent the request. Once it has been
// sent, its memory is given back.
func (s *processSlot) callProcess(r *http.Request, m *inbound.Request, newCall func() *call, begin func() error) (*http.Response, error) {
	for range 3 {
		asked := newCall()
		c, _, err := s.awake(r.Context())
		if err == nil {
			err = begin()
		}
		if err == nil {
			err = c.sendRequest(r.Context(), m.Body.Bytes, asked)
		}
		switch {
		case err == nil && r.Context().Err() != nil:
			c.leave(asked)
			return nil, context.Cause(r.Context())
		case r.Context().Err() != nil:
			return nil, context.Cause(r.Context())
		case errors.Is(err, errGone):
			continue
		case err != nil:
			return nil, err
		}
		if asked.written.Load() {
			m.Share.Release()
		}
		if res, err := c.await(r, asked); res != nil || err != nil {
			return res, err
		}
	}
	return nil, errEnds
}

var errEnds = errors.New("program ends again and again before it is sent the request")

// await returns the answer to a request, or its beginning; neither that nor an error if the
// process has ended before it was sent the request.
func (c *child) await(r *http.Request, asked *call) (*http.Response, error) {
	wait := patience
	if !asked.streams {
		wait = math.MaxInt64
	}
	first, last := asked.answer.next(wait, r.Context().Done())
	switch {
	case r.Context().Err() != nil:
		first.share.Release()
		c.leave(asked)
		return nil, context.Cause(r.Context())
	case last && first.message == nil && !asked.written.Load():
		return nil, nil
	case last && first.message != nil && asked.modern:
		return single(r, statusOf(first.message), asked.answer, first), nil
	case last && first.message != nil:
		return single(r, http.StatusOK, asked.answer, first), nil
	}
	return events(r, asked.answer, first, last, func() { c.leave(asked) }), nil
}

// takesStream reports whether a client takes an answer that is a stream.
func takesStream(r *http.Request) bool {
	for _, value := range r.Header.Values("Accept") {
		if strings.Contains(value, "text/event-stream") {
			return true
		}
	}
	return false
}

const needsStream = "Accept has to name text/event-stream"

// get opens the stream of what is no part of an answer.
func (p *Program) get(r *http.Request) *http.Response {
	if !takesStream(r) {
		return refuse(r, nil, jsonrpc.Refused(http.StatusNotAcceptable, needsStream))
	}
	s, refused := p.sessionOf(r, nil)
	if refused != nil {
		return refused
	}
	stream := s.listen()
	return events(r, stream, piece{}, false, nil)
}

// delete ends a session.
func (p *Program) delete(r *http.Request) *http.Response {
	s, refused := p.sessionOf(r, nil)
	if refused != nil {
		return refused
	}
	p.forget(s)
	return answer(r, http.StatusNoContent, nil)
}

// unanswered says that there is no process to answer. Whoever keeps lists is told by the status that
// it is not the answer to one. Calls have the error alone: some clients give up at another status.
func (p *Program) unanswered(r *http.Request, request *message.Request, err error) *http.Response {
	status := http.StatusOK
	method := string(request.Method)
	if _, kept := revision.KindOf(method); (kept || method == "initialize") && !errors.Is(err, errCancelled) {
		status = http.StatusServiceUnavailable
	}
	res := refuse(r, request.ID, jsonrpc.Failed(status, err.Error()))
	if later, ok := errors.AsType[*unavailable](err); ok && status != http.StatusOK {
		res.Header.Set("Retry-After", strconv.Itoa(int(math.Ceil(later.after.Seconds()))))
	}
	return res
}

// Forbid returns the answer to a request that must not reach a program.
func Forbid(r *http.Request, reason string) *http.Response {
	if r.Body != nil {
		r.Body.Close()
	}
	return refuse(r, nil, jsonrpc.Refused(http.StatusForbidden, reason))
}

// refuse returns an answer that is an error of JSON-RPC.
func refuse(r *http.Request, id []byte, p *jsonrpc.Problem) *http.Response {
	return answer(r, p.Status, p.Append(nil, id))
}

// answer returns an answer with that message, nil for none.
func answer(r *http.Request, status int, body []byte) *http.Response {
	res := &http.Response{
		Status: strconv.Itoa(status) + " " + http.StatusText(status), StatusCode: status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: make(http.Header), Request: r,
		ContentLength: int64(len(body)), Body: http.NoBody,
	}
	if body != nil {
		res.Header.Set("Content-Type", "application/json")
		res.Header.Set("Content-Length", strconv.Itoa(len(body)))
		res.Body = io.NopCloser(bytes.NewReader(body))
	}
	return res
}
