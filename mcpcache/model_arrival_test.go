package mcpcache

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// arrival is a request that the upstream got.
type arrival struct {
	at      *modelInstance // that has sent it
	serial  string         // "" for a request of the feed
	http    string
	id      json.RawMessage
	method  string
	kind    revision.Kind
	list    bool
	name    string // of a tool that is called
	asked   string // the revision that initialize proposes
	ctx     string
	session string
	also    string // another session that the request names
	rev     string
	caps    string
	client  string // what the client calls itself in initialize
	cursor  *string
	unknown bool          // it has a parameter that no cache can know
	seq     int           // where it is in the order of what the upstream decides
	arrived time.Time     // when it did
	ttl     time.Duration // of the product's configuration, at most

	names   []mention  // what it names
	batch   []*arrival // the messages of a batch
	body    []byte
	resumed string // the stream of which it wants the rest
	// probe: the client has asked for something else; in its place the product asks
	// for this.
	probe bool
}

func (a *arrival) feed() bool { return a.serial == "" }

// several reports whether it comes from a client of a toolkit, shown whether the toolkit asks what
// a caller is shown.
func (a *arrival) several() bool { return strings.HasPrefix(a.serial, "t") }
func (a *arrival) shown() bool {
	return a.at.w.cfg.several && a.feed() && a.ctx != a.at.w.feedContext()
}

func (a *arrival) modern() bool { return a.rev == revision.LatestModern.String() }

// caller is who asks: a session, or the callers of a context without one.
func (a *arrival) caller() string { return callerOf(a.session, a.ctx, a.rev) }

func callerOf(session, ctx, rev string) string {
	if rev == revision.LatestModern.String() {
		return "modern " + ctx
	}
	if session != "" {
		return session + " " + ctx
	}
	return rev + " " + ctx
}

func readArrival(at *modelInstance, r *http.Request) (*arrival, error) {
	r = throughProxy(r)
	a := &arrival{
		at: at, arrived: time.Now(),
		serial: r.Header.Get("X-Request-Id"), http: r.Method,
		session: r.Header.Get("Mcp-Session-Id"), rev: r.Header.Get("Mcp-Protocol-Version"),
		ctx: contextNamed(r.Header.Get("Authorization")), resumed: r.Header.Get("Last-Event-Id"),
	}
	if named := r.Header["Mcp-Session-Id"]; len(named) > 1 {
		a.also = named[1]
	}
	if a.rev == "" {
		a.rev = revision.V20250326.String()
	}
	if a.modern() {
		a.session = ""
	}
	body, err := io.ReadAll(r.Body)
	if a.body = body; err != nil || len(body) == 0 {
		return a, err
	}
	if a.batch, err = readBatch(a, body); a.batch != nil || err != nil {
		return a, err
	}
	return a, a.read(body)
}

// throughProxy returns a request as a proxy hands it on: without the header that
// Connection names.
func throughProxy(r *http.Request) *http.Request {
	if named := r.Header.Get("Connection"); named != "" {
		r = r.Clone(r.Context())
		r.Header.Del(named)
	}
	return r
}

// readBatch reads the messages of a batch; it returns nil if there is none.
func readBatch(whole *arrival, body []byte) (batch []*arrival, err error) {
	var messages []json.RawMessage
	if json.Unmarshal(body, &messages) != nil {
		return nil, nil
	}
	for _, raw := range messages {
		one := *whole
		if err := one.read(raw); err != nil {
			return nil, err
		}
		batch = append(batch, &one)
	}
	return batch, nil
}

// read reads a message.
func (a *arrival) read(body []byte) error {
	var m struct {
		ID     json.RawMessage
		Method string
		Params struct {
			Name            string
			URI             string
			ProtocolVersion string
			Cursor          *string
			Like            any
			Capabilities    json.RawMessage
			ClientInfo      struct{ Name string }
			Ref             struct{ Type, Name, URI string }
			Notifications   struct{ ResourceSubscriptions []string }
			Meta            struct {
				Capabilities json.RawMessage `json:"io.modelcontextprotocol/clientCapabilities"`
			} `json:"_meta"`
		}
	}
	if err := json.Unmarshal(body, &m); err != nil {
		return fmt.Errorf("reading request: %w", err)
	}
	p := &m.Params
	a.id, a.method, a.name, a.cursor, a.asked = m.ID, m.Method, p.Name, p.Cursor, p.ProtocolVersion
	a.unknown = p.Like != nil
	a.client = p.ClientInfo.Name
	a.caps = strings.TrimPrefix(string(p.Meta.Capabilities)+string(p.Capabilities), "{}")
	a.kind, a.list = revision.KindOf(m.Method)
	a.names = namesIn(m.Method, p.Name, p.URI, p.Ref.Type, p.Ref.Name, p.Ref.URI, p.Notifications.ResourceSubscriptions)
	return nil
}
