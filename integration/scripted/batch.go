package scripted

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
)

// batch returns the messages of a batch, if a body is one and the server takes them.
func (s *Server) batch(body []byte) []json.RawMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	var messages []json.RawMessage
	if !s.settings.batches || json.Unmarshal(body, &messages) != nil {
		return nil
	}
	return messages
}

// answerBatch answers a batch by one: an array, or a stream of events (2025-03-26,
// "Sending Messages to the Server").
func (s *Server) answerBatch(w http.ResponseWriter, r *http.Request, messages []json.RawMessage) {
	var answers []string
	status, contentType := http.StatusAccepted, ""
	for _, message := range messages {
		one := httptest.NewRecorder()
		s.answer(one, r, message)
		if one.Body.Len() > 0 {
			status, contentType = one.Code, one.Header().Get("Content-Type")
			answers = append(answers, one.Body.String())
		}
	}
	body := strings.Join(answers, "")
	if contentType == "application/json" {
		body = "[" + strings.Join(answers, ", ") + "]"
	}
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}
