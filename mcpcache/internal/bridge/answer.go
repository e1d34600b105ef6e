package bridge

import (
	"net/http"
	"slices"
	"strconv"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/jsonrpc"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// Answer turns what a server sends in answer to a request into what the client of the other
// era can be given.
type Answer struct {
	// To is the client's era.
	To revision.Era
	// ID is that of the client's request, as written; Sent is what the server was sent.
	ID, Sent []byte
	// Method is the request's.
	Method string
	// Level is that of the log messages that a modern client has asked for; "" for none.
	Level string
}

// Message is a message of a server.
type Message struct {
	// Bytes are what the client is given; nil: nothing.
	Bytes []byte
	// Final says that the message is the response.
	Final bool
	// Code is that of an error; 0 for none.
	Code int
}

// Translate returns what the client is given of a response or a notification. What nobody could
// make sense of is left out.
func (a *Answer) Translate(data []byte) Message {
	switch method := message.StringAt(data, "method"); {
	case method == "":
		return a.response(data)
	case !a.allows(method, data):
		return Message{}
	}
	return Message{Bytes: data}
}

// allows reports whether the client may be sent a notification in answer to a request. A
// modern client is sent what it has asked for: log messages if it has named a level
// (2026-07-28, "Logging").
func (a *Answer) allows(method string, data []byte) bool {
	switch {
	case a.To == revision.Legacy:
		return true
	case method == "notifications/message":
		return a.Level != "" && slices.Index(message.LogLevels, message.StringAt(data, "params", "level")) >= slices.Index(message.LogLevels, a.Level)
	}
	return method == "notifications/progress"
}

func (a *Answer) response(data []byte) Message {
	response, err := message.ParseResponse(data)
	switch {
	case err != nil:
		return Message{}
	case !message.SameID(response.ID, a.Sent) && (response.Error == nil || response.ID != nil):
		return Message{} // of another request, perhaps at another server
	case response.Error != nil:
		return a.failure(data, response.Error.Code)
	case a.To == revision.Modern:
		return a.modernResult(response.Result)
	}
	if kind := message.StringAt(response.Result, "resultType"); kind != "" && kind != "complete" {
		return a.Fail("the server asks for what a client of this revision cannot give: " + kind)
	}
	if data, err = message.WithValue(data, a.ID, "id"); err != nil { // written the client's way
		return Message{}
	}
	return Message{Bytes: data, Final: true}
}

// modernResult returns a legacy result as a modern one. One that is read is not to be kept.
func (a *Answer) modernResult(result []byte) Message {
	members := []struct{ name, value string }{{"resultType", `"complete"`}}
	if a.Method == "resources/read" {
		members = append(members, struct{ name, value string }{"cacheScope", `"private"`}, struct{ name, value string }{"ttlMs", "0"})
	}
	for _, m := range members {
		var err error
		if result, err = message.WithValue(result, []byte(m.value), m.name); err != nil {
			return a.Fail("the server's result cannot be read with certainty: " + err.Error())
		}
	}
	whole := slices.Concat([]byte(`{"jsonrpc":"2.0","id":`), a.ID, []byte(`,"result":`), result, []byte("}"))
	return Message{Bytes: whole, Final: true}
}

// failure returns an error as the client is told of it.
func (a *Answer) failure(data []byte, code int) Message {
	failure, _ := message.ValueAt(data, "error") // it has been parsed
	if code == jsonrpc.ResourceNotFound && a.To == revision.Modern {
		code = jsonrpc.InvalidParams // 2026-07-28, "Resources", "Error Handling"
		if changed, err := message.WithValue(failure, strconv.AppendInt(nil, int64(code), 10), "code"); err == nil {
			failure = changed
		}
	}
	whole := slices.Concat([]byte(`{"jsonrpc":"2.0","id":`), a.ID, []byte(`,"error":`), failure, []byte("}"))
	return Message{Bytes: whole, Final: true, Code: code}
}

// Fail returns an error of ours in place of the response.
func (a *Answer) Fail(text string) Message {
	p := jsonrpc.Failed(http.StatusOK, text)
	return Message{Bytes: p.Append(nil, a.ID), Final: true, Code: p.Code}
}
