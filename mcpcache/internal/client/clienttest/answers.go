package clienttest

import (
	"fmt"
	"io"
	"net/http"
)

// Result answers with a result.
func Result(w http.ResponseWriter, c Call, result string) error {
	return Reply(w, http.StatusOK, "application/json", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, c.ID, result))
}

// Reply answers with a body.
func Reply(w http.ResponseWriter, status int, mediaType, body string) error {
	w.Header().Set("Content-Type", mediaType)
	w.WriteHeader(status)
	_, err := io.WriteString(w, body)
	return err
}

// Gives answers with a result.
func Gives(text string) Script {
	return func(w http.ResponseWriter, _ *http.Request, c Call) error { return Result(w, c, text) }
}

// Failure answers with a JSON-RPC error.
func Failure(status, code int, supported string) Script {
	data := ""
	if supported != "" {
		data = fmt.Sprintf(`,"data":{"supported":[%q]}`, supported)
	}
	return func(w http.ResponseWriter, _ *http.Request, c Call) error {
		return Reply(w, status, "application/json",
			fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":"no"%s}}`, c.ID, code, data))
	}
}

// Status answers with a status alone.
func Status(code int, header ...string) Script {
	return func(w http.ResponseWriter, _ *http.Request, _ Call) error {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		return Reply(w, code, "text/html", "<html>")
	}
}

// Refuse takes no connection.
func Refuse(http.ResponseWriter, *http.Request, Call) error { return ErrRefused }

// Hang never answers.
func Hang(_ http.ResponseWriter, r *http.Request, _ Call) error {
	<-r.Context().Done()
	return r.Context().Err()
}

// Raw answers with those bytes as JSON.
func Raw(body string) Script {
	return func(w http.ResponseWriter, _ *http.Request, _ Call) error {
		return Reply(w, http.StatusOK, "application/json", body)
	}
}

// AnswerTo answers another request than the one that was sent.
func AnswerTo(id string) Script {
	return Raw(`{"jsonrpc":"2.0","id":` + id + `,"result":{"supportedVersions":["2026-07-28"],"tools":[{"name":"evil"}],"capabilities":{}}}`)
}
