package message

import "fmt"

// ServerInfo is what the cache needs of an InitializeResult or a DiscoverResult.
type ServerInfo struct {
	ProtocolVersion   string          // of an InitializeResult
	SupportedVersions []string        // of a DiscoverResult
	Capabilities      map[string]bool // names of the capabilities that are present as objects
	ListChanged       map[string]bool // names of those whose listChanged is true
}

const (
	serverVersion = iota
	serverVersions
	serverCapabilities
)

var serverInfoKeys = keys("protocolVersion", "supportedVersions", "capabilities")

var capabilityKeys = keys("listChanged")

// ParseServerInfo takes apart the result of initialize or server/discover. It
// is an error if the result names no protocol version at all.
func ParseServerInfo(result []byte) (ServerInfo, error) {
	info := ServerInfo{Capabilities: map[string]bool{}, ListChanged: map[string]bool{}}
	err := eachMember(result, serverInfoKeys, func(key int, _, value []byte) (err error) {
		if isNull(value) {
			return nil // counts as absent
		}
		switch key {
		case serverVersion:
			if !isString(value) {
				return invalid("protocolVersion is not a string")
			}
			info.ProtocolVersion = string(unquote(value))
		case serverVersions:
			if info.SupportedVersions, err = stringList(value); err != nil {
				return fmt.Errorf("supportedVersions: %w", err)
			}
		case serverCapabilities:
			if isObject(value) { // else it offers none, which is no reason to do without the rest
				return info.capabilities(value)
			}
		}
		return nil
	})
	if err == nil && info.ProtocolVersion == "" && len(info.SupportedVersions) == 0 {
		err = invalid("no protocol version")
	}
	if err != nil {
		return ServerInfo{}, fmt.Errorf("parsing server info: %w", err)
	}
	return info, nil
}

// capabilities takes those that are written as objects; some servers write none, or null.
func (info *ServerInfo) capabilities(raw []byte) error {
	if !isObject(raw) {
		return nil
	}
	return eachMember(raw, nil, func(_ int, raw, value []byte) error {
		if !isObject(value) {
			return nil
		}
		name := string(unquote(raw))
		info.Capabilities[name] = true
		return eachMember(value, capabilityKeys, func(key int, _, value []byte) error {
			if key != unknown && string(value) == "true" {
				info.ListChanged[name] = true
			}
			return nil
		})
	})
}
