package message

import "slices"

// Meta is params._meta.
type Meta struct {
	Revision     []byte // unescaped value of io.modelcontextprotocol/protocolVersion; nil when absent
	Capabilities []byte // raw JSON object of io.modelcontextprotocol/clientCapabilities; nil when absent
	Baggage      []byte // unescaped value of baggage; nil when absent
	Extra        bool   // it has a key that the cache does not know
}

const (
	metaToken = iota
	metaRevision
	metaCapabilities
	metaClientInfo
	metaLogLevel
	metaBaggage
)

// The members of _meta that the protocol has given to modern requests (2026-07-28, "Base
// Protocol", "_meta").
const (
	MetaRevision     = "io.modelcontextprotocol/protocolVersion"
	MetaCapabilities = "io.modelcontextprotocol/clientCapabilities"
	MetaClientInfo   = "io.modelcontextprotocol/clientInfo"
	MetaLogLevel     = "io.modelcontextprotocol/logLevel"
)

// MetaSubscription is the member of _meta that says to which subscription a message belongs
// (2026-07-28, "Subscriptions").
const MetaSubscription = "io.modelcontextprotocol/subscriptionId"

// The values of the other _meta keys are strings.
var metaKeys = keys(
	"progressToken", MetaRevision, MetaCapabilities, MetaClientInfo, MetaLogLevel,
	"baggage", "traceparent", "tracestate",
)

// LogLevels are those of log messages, the least first (2025-11-25, "Logging", "Log Levels";
// 2026-07-28, schema, "LoggingLevel").
var LogLevels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// meta reads params._meta of a request.
func (s *scanner) meta(req *Request) error {
	_, err := s.eachOf(metaKeys, "_meta is not an object", func(key int) error { return s.metaMember(key, req) })
	return err
}

func (s *scanner) metaMember(key int, req *Request) error {
	if key == metaClientInfo {
		return s.clientInfo()
	}
	value, err := s.value()
	if err != nil {
		return err
	}
	meta := &req.Meta
	switch key {
	case unknown:
		meta.Extra = true
	case metaToken:
		if !isString(value) && !isInteger(value) {
			return invalid("progressToken is not a string or integer")
		}
		req.UnsafeInteger = req.UnsafeInteger || !isString(value) && !isSafe(value)
	case metaCapabilities:
		if !isObject(value) {
			return invalid("clientCapabilities is not an object")
		}
		meta.Capabilities = value
	case metaLogLevel:
		if !isString(value) || !slices.Contains(LogLevels, string(value[1:len(value)-1])) {
			return invalid("logLevel is none of the eight")
		}
	default:
		return meta.text(key, value)
	}
	return nil
}

// text takes a value that has to be a string.
func (m *Meta) text(key int, value []byte) error {
	if !isString(value) {
		return invalid("_meta value is not a string")
	}
	switch key {
	case metaRevision:
		m.Revision = unquote(value)
	case metaBaggage:
		m.Baggage = unquote(value)
	}
	return nil
}
