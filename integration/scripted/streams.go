package scripted

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// StreamInfo tells whose stream it is that notices can be sent on.
type StreamInfo struct {
	// Session is the ID of a legacy client's session.
	Session   string
	Auth      string
	UserAgent string
	Feed      bool
	Modern    bool
}

// Everybody, Feeds and Clients choose among streams.
func Everybody(StreamInfo) bool { return true }

// Feeds chooses the feed's streams.
func Feeds(info StreamInfo) bool { return info.Feed }

// Clients chooses the streams of clients.
func Clients(info StreamInfo) bool { return !info.Feed }

// Session chooses the streams of one session.
func Session(id string) func(StreamInfo) bool {
	return func(info StreamInfo) bool { return info.Session == id }
}

// stream is a GET stream or a subscription.
type stream struct {
	StreamInfo

	filter       *filter // of a subscription
	subscription json.RawMessage
	send         chan event
	end          chan struct{}
	ended        bool
}

// event is what is sent on a stream: an event of that ID and data, or raw bytes.
type event struct{ id, data, raw string }

// filter is what a subscription asks for.
type filter struct {
	Tools     bool     `json:"toolsListChanged"`
	Prompts   bool     `json:"promptsListChanged"`
	Resources bool     `json:"resourcesListChanged"`
	URIs      []string `json:"resourceSubscriptions"`
}

func (f *filter) wants(method, uri string) bool {
	switch method {
	case "notifications/tools/list_changed":
		return f.Tools
	case "notifications/prompts/list_changed":
		return f.Prompts
	case "notifications/resources/list_changed":
		return f.Resources
	case "notifications/resources/updated":
		return slices.ContainsFunc(f.URIs, func(u string) bool { return strings.HasPrefix(uri, u) })
	}
	return false
}

// backlog is how many events a stream may lag behind.
const backlog = 4096

func newStream(r *http.Request, m Message) *stream {
	return &stream{
		StreamInfo: StreamInfo{
			Session: m.Session, Auth: m.Auth, UserAgent: r.UserAgent(), Feed: m.Feed, Modern: m.Modern,
		},
		send: make(chan event, backlog),
		end:  make(chan struct{}),
	}
}

func (s *Server) get(w http.ResponseWriter, r *http.Request) {
	m := parse(r, nil)
	s.mu.Lock()
	session := s.sessions[m.Session]
	s.mu.Unlock()
	if session == nil {
		status := s.sessionStatus(m.Session)
		if status == 0 {
			status = http.StatusMethodNotAllowed
		}
		http.Error(w, "no such session", status)
		return
	}
	t := newStream(r, m)
	s.mu.Lock()
	missed := replay(session, r.Header.Get("Last-Event-ID"))
	s.streams[t] = struct{}{}
	s.mu.Unlock()
	openStream(w)
	for _, e := range missed {
		writeEvent(w, e.id, e.data)
	}
	s.run(w, r, t)
}

// replay returns the events that came after that ID. The server's lock is held.
func replay(session *session, last string) []event {
	seen, err := strconv.Atoi(last)
	if err != nil {
		return nil
	}
	var missed []event
	first := session.events - len(session.history) + 1
	for i, data := range session.history {
		if first+i > seen {
			missed = append(missed, event{id: strconv.Itoa(first + i), data: data})
		}
	}
	return missed
}

// listen serves a subscription. An answer that ends with a result tells the
// client that the server has ended it.
func (x *Exchange) listen() {
	var params struct {
		Notifications filter `json:"notifications"`
	}
	if err := json.Unmarshal(x.Params, &params); err != nil {
		x.Error(http.StatusBadRequest, -32602, "invalid filter")
		return
	}
	t := newStream(x.R, x.Message)
	t.Session = ""
	t.filter, t.subscription = &params.Notifications, x.ID
	granted, err := json.Marshal(params.Notifications)
	if err != nil {
		panic(err) // it was unmarshalled just now
	}
	x.server.mu.Lock()
	x.server.streams[t] = struct{}{}
	x.server.mu.Unlock()
	x.Event(fmt.Sprintf(
		`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{%q:%s},"notifications":%s}}`,
		metaSubscription, x.ID, granted))
	if x.server.run(x.W, x.R, t) {
		x.Event(x.Envelope(fmt.Sprintf(`{"resultType":"complete","_meta":{%q:%s}}`, metaSubscription, x.ID)))
	}
}

// run sends a stream's events until the client is gone or the server ends it;
// it reports the latter.
func (s *Server) run(w http.ResponseWriter, r *http.Request, t *stream) bool {
	defer func() {
		s.mu.Lock()
		delete(s.streams, t)
		s.mu.Unlock()
	}()
	for {
		select {
		case e := <-t.send:
			if e.raw != "" {
				_, _ = io.WriteString(w, e.raw)
				flush(w)
				continue
			}
			writeEvent(w, e.id, e.data)
		case <-t.end:
			return true
		case <-r.Context().Done():
			return false
		}
	}
}

// Notify sends a notification to the streams that to chooses and that have
// asked for it, and returns how many those are.
func (s *Server) Notify(to func(StreamInfo) bool, method, params string) int {
	var updated struct {
		URI string `json:"uri"`
	}
	// Params of other notifications have no uri.
	_ = json.Unmarshal([]byte(params), &updated)
	s.mu.Lock()
	defer s.mu.Unlock()
	sent := 0
	for t := range s.streams {
		if !to(t.StreamInfo) || t.filter != nil && !t.filter.wants(method, updated.URI) {
			continue
		}
		select {
		case t.send <- s.notification(t, method, params):
			sent++
		default: // a client that does not read has lost this event
		}
	}
	return sent
}

// notification writes a notification for one stream. The lock is held.
func (s *Server) notification(t *stream, method, params string) event {
	if t.filter != nil {
		meta := fmt.Sprintf(`{"_meta":{%q:%s}`, metaSubscription, t.subscription)
		if rest := strings.TrimPrefix(params, "{"); rest != "}" {
			meta += "," + strings.TrimSuffix(rest, "}")
		}
		return event{data: fmt.Sprintf(`{"jsonrpc":"2.0","method":%q,"params":%s}}`, method, meta)}
	}
	data := fmt.Sprintf(`{"jsonrpc":"2.0","method":%q,"params":%s}`, method, params)
	if session := s.sessions[t.Session]; session != nil {
		return event{id: session.remember(data), data: data}
	}
	return event{data: data}
}

// SendBytes sends bytes as they are on the streams that to chooses, and returns
// how many those are.
func (s *Server) SendBytes(to func(StreamInfo) bool, raw string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	sent := 0
	for t := range s.streams {
		if !to(t.StreamInfo) {
			continue
		}
		select {
		case t.send <- event{raw: raw}:
			sent++
		default: // a client that does not read has lost these bytes
		}
	}
	return sent
}

// Changed announces a change of what a list method gives to the streams that
// to chooses, and returns how many those are.
func (s *Server) Changed(to func(StreamInfo) bool, listMethod string) int {
	family, _, _ := strings.Cut(listMethod, "/")
	return s.Notify(to, "notifications/"+family+"/list_changed", "{}")
}

// EndStreams ends the streams that which chooses.
func (s *Server) EndStreams(which func(StreamInfo) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for t := range s.streams {
		if which(t.StreamInfo) && !t.ended {
			t.ended = true
			close(t.end)
		}
	}
}

// Streams returns how many open streams which chooses.
func (s *Server) Streams(which func(StreamInfo) bool) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for t := range s.streams {
		if which(t.StreamInfo) {
			n++
		}
	}
	return n
}

func openStream(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache")
	w.WriteHeader(http.StatusOK)
	flush(w)
}

func writeEvent(w http.ResponseWriter, id, data string) {
	if id != "" {
		id = "id: " + id + "\n"
	}
	// Data of several lines is that many fields; the reader joins them again.
	data = strings.ReplaceAll(data, "\n", "\ndata: ")
	_, _ = io.WriteString(w, "event: message\n"+id+"data: "+data+"\n\n")
	flush(w)
}

// flush sends what was written. A client that is gone shows in the context.
func flush(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }
