package scripted

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
)

// Garbage answers with bytes that are no JSON.
func Garbage(x *Exchange) {
	x.Raw(http.StatusOK, "application/json", "\x00\xff\xfe{\"jsonrpc\":\"2.0\",]")
}

// HTML answers as a captive portal does.
func HTML(x *Exchange) {
	x.Raw(http.StatusOK, "text/html; charset=utf-8", "<!DOCTYPE html><title>Sign in</title>")
}

// WrongID answers somebody else's request.
func WrongID(x *Exchange) {
	result, _ := x.server.list(&x.Message)
	x.ID = []byte(`"somebody-else"`)
	x.Result(result)
}

// AndMore answers with a message and something after it.
func AndMore(x *Exchange) {
	result, _ := x.server.list(&x.Message)
	x.Raw(http.StatusOK, "application/json", x.Envelope(result)+`{"more":1}`)
}

// OtherVersion answers in another version of JSON-RPC.
func OtherVersion(x *Exchange) {
	result, _ := x.server.list(&x.Message)
	x.Raw(http.StatusOK, "application/json", strings.Replace(x.Envelope(result), `"2.0"`, `"1.0"`, 1))
}

// ErrorObject answers with 200 and a JSON-RPC error.
func ErrorObject(x *Exchange) { x.Error(http.StatusOK, -32603, "database is down") }

// ResultWith503 answers with a status that says failure and a body that says
// there is nothing.
func ResultWith503(x *Exchange) {
	x.Raw(http.StatusServiceUnavailable, "application/json",
		x.Envelope(listResult(&x.Message, nil, "", "", "")))
}

// Status answers with a bare status.
func Status(code int) Script {
	return func(x *Exchange) { x.Raw(code, "text/plain", http.StatusText(code)) }
}

// TooManyRequests answers with 429 and asks to wait so many seconds.
func TooManyRequests(seconds int) Script {
	return func(x *Exchange) {
		x.W.Header().Set("Retry-After", strconv.Itoa(seconds))
		x.Raw(http.StatusTooManyRequests, "text/plain", "slow down")
	}
}

// Endless answers each page with an item and another cursor.
func Endless(x *Exchange) {
	given, _ := x.param("cursor")
	n, _ := strconv.Atoi(given) // the first page has no cursor
	item := Page{strings.ReplaceAll(Items(x.Method, "endless", 1)[0], "item-0000", fmt.Sprintf("item-%d", n))}
	x.server.page(x, item, strconv.Itoa(n+1))
}

// CursorCycle answers with pages that lead back to each other.
func CursorCycle(x *Exchange) {
	next := map[string]string{"": "a", "a": "b", "b": "a"}
	given, _ := x.param("cursor")
	item := Page{strings.ReplaceAll(Items(x.Method, "cycle", 1)[0], "item-0000", "item-"+given)}
	x.server.page(x, item, next[given])
}

// Oversized answers with one item of so many bytes.
func Oversized(bytes int) Script {
	return func(x *Exchange) {
		x.server.page(x, Items(x.Method, strings.Repeat("x", bytes), 1), "")
	}
}

// Empty answers with a list of nothing.
func Empty(x *Exchange) { x.server.page(x, nil, "") }

// DuplicateNames answers with two items of the same name.
func DuplicateNames(x *Exchange) {
	item := Items(x.Method, "duplicate", 1)[0]
	x.server.page(x, Page{item, item}, "")
}

// Nameless answers with an item that has no name.
func Nameless(x *Exchange) {
	x.server.page(x, Page{`{"description":"who am I"}`}, "")
}

// page answers with a list result of that page.
func (s *Server) page(x *Exchange, page Page, next string) {
	s.mu.Lock()
	hints := s.settings.hints
	s.mu.Unlock()
	x.Result(listResult(&x.Message, page, next, hints, ""))
}

// Hang answers nothing until released, then as ever.
func Hang(release <-chan struct{}) Script {
	return func(x *Exchange) {
		select {
		case <-release:
			x.Default()
		case <-x.Done():
		}
	}
}

// HalfBody announces a whole answer and cuts the connection in its middle.
func HalfBody(x *Exchange) { cut(x, func(whole int) int { return whole / 2 }) }

// CutAfter cuts the connection after so many bytes of the answer's body.
func CutAfter(bytes int) Script {
	return func(x *Exchange) { cut(x, func(whole int) int { return min(bytes, whole-1) }) }
}

func cut(x *Exchange, length func(whole int) int) {
	answer := x.render()
	maps.Copy(x.W.Header(), answer.Header())
	x.W.Header().Set("Content-Length", strconv.Itoa(answer.Body.Len()))
	x.W.WriteHeader(answer.Code)
	_, _ = x.W.Write(answer.Body.Bytes()[:length(answer.Body.Len())])
	flush(x.W)
	panic(http.ErrAbortHandler) // net/http closes the connection
}

// SlowLoris sends the answer byte by byte, each when ticked, as long as the
// client is there. A closed channel sends the rest at once.
func SlowLoris(tick <-chan struct{}) Script {
	return func(x *Exchange) {
		answer := x.render()
		x.W.Header().Set("Content-Type", answer.Header().Get("Content-Type"))
		x.W.WriteHeader(answer.Code)
		for _, b := range answer.Body.Bytes() {
			select {
			case <-tick:
			case <-x.Done():
				return
			}
			_, _ = x.W.Write([]byte{b})
			flush(x.W)
		}
	}
}

// Loose answers as ever, but writes its id as a fraction, members of null, and the version twice.
func Loose(x *Exchange) {
	usual := x.render()
	maps.Copy(x.W.Header(), usual.Header())
	answer := strings.Replace(usual.Body.String(), `{"jsonrpc":"2.0"`, `{"jsonrpc":"2.0","method":null,"params":null,"jsonrpc":"2.0"`, 1)
	if _, err := strconv.Atoi(string(x.ID)); err == nil {
		answer = strings.Replace(answer, `"id":`+string(x.ID), `"id":`+string(x.ID)+".0", 1)
	}
	x.W.Header().Del("Content-Length")
	x.Raw(usual.Code, usual.Header().Get("Content-Type"), answer)
}

// AnothersErrorFirst answers in an event stream, which has the error of another request before the answer.
func AnothersErrorFirst(x *Exchange) {
	usual := x.render()
	x.Event(`{"jsonrpc":"2.0","id":"another","error":{"code":-32000,"message":"another request has failed"}}`)
	x.Event(strings.ReplaceAll(usual.Body.String(), "\n", " "))
}

// render returns what Default would answer.
func (x *Exchange) render() *httptest.ResponseRecorder {
	w := x.W
	recorder := httptest.NewRecorder()
	x.W = recorder
	x.Default()
	x.W = w
	return recorder
}
