package message

import "github.com/go-json-experiment/json/jsontext"

// Meta is params._meta.
type Meta struct {
	Revision     []byte // unescaped value of io.modelcontextprotocol/protocolVersion; nil when absent
	Capabilities []byte // raw JSON object of io.modelcontextprotocol/clientCapabilities; nil when absent
	Extra        bool   // it has a key that the cache does not know
}

const (
	metaToken = iota
	metaRevision
	metaCapabilities
	metaClientInfo
)

// The values of the other _meta keys are strings.
var metaKeys = keys(
	"progressToken",
	"io.modelcontextprotocol/protocolVersion",
	"io.modelcontextprotocol/clientCapabilities",
	"io.modelcontextprotocol/clientInfo",
	"io.modelcontextprotocol/logLevel",
	"traceparent", "tracestate", "baggage",
)

const (
	infoName = iota
	infoVersion
)

var clientInfoKeys = keys("name", "version")

func (s *scanner) meta(meta *Meta) error {
	if err := s.open(jsontext.KindBeginObject, "_meta is not an object"); err != nil {
		return err
	}
	var before seen
	for s.more() {
		key, err := s.member(metaKeys, &before)
		if err != nil {
			return err
		}
		if err := s.metaMember(key, meta); err != nil {
			return err
		}
	}
	return nil
}

func (s *scanner) metaMember(key int, meta *Meta) error {
	if key == metaClientInfo {
		return s.clientInfo()
	}
	value, err := s.value()
	if err != nil {
		return err
	}
	switch key {
	case unknown:
		meta.Extra = true
	case metaToken:
		if !isString(value) && !isNumber(value) {
			return invalid("progressToken is not a string or number")
		}
	case metaRevision:
		if !isString(value) {
			return invalid("protocolVersion is not a string")
		}
		meta.Revision = unquote(value)
	case metaCapabilities:
		if !isObject(value) {
			return invalid("clientCapabilities is not an object")
		}
		meta.Capabilities = value
	default:
		if !isString(value) {
			return invalid("_meta value is not a string")
		}
	}
	return nil
}

// clientInfo checks that the next value is an Implementation, with the members
// that one must have. The cache has no use for it, but upstreams refuse others.
func (s *scanner) clientInfo() error {
	if err := s.open(jsontext.KindBeginObject, "clientInfo is not an object"); err != nil {
		return err
	}
	var before seen
	for s.more() {
		key, err := s.member(clientInfoKeys, &before)
		if err != nil {
			return err
		}
		value, err := s.value()
		if err != nil {
			return err
		}
		if key != unknown && !isString(value) {
			return invalid("clientInfo has a name or version that is not a string")
		}
	}
	if !before.has(infoName) || !before.has(infoVersion) {
		return invalid("clientInfo without name or version")
	}
	return nil
}
