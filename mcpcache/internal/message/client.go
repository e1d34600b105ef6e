package message

import (
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
)

// Client is what an InitializeRequest says of the client.
type Client struct {
	Name         string // clientInfo.name
	Capabilities []byte // raw JSON object; it points into the message
}

const (
	clientCapabilities = iota
	clientIdentity
)

var (
	initializeKeys = keys("capabilities", "clientInfo")
	paramsKeys     = keys("params")
	nameKeys       = keys("name")
)

// ParseClient takes apart a request for initialize. It is an error if a member
// that it needs is missing, repeated or of the wrong type: servers may read such
// a message differently.
func ParseClient(request []byte) (Client, error) {
	var client Client
	var params []byte
	err := eachMember(request, paramsKeys, func(key int, _, value []byte) error {
		if key != unknown {
			params = value
		}
		return nil
	})
	if err == nil && params == nil {
		err = invalid("no params")
	}
	if err == nil {
		err = eachMember(params, initializeKeys, client.member)
	}
	if err == nil && client.Capabilities == nil {
		err = invalid("no capabilities")
	}
	if err != nil {
		return Client{}, fmt.Errorf("parsing initialize: %w", err)
	}
	return client, nil
}

func (c *Client) member(key int, _, value []byte) error {
	switch key {
	case clientCapabilities:
		if !isObject(value) {
			return invalid("capabilities is not an object")
		}
		c.Capabilities = value
	case clientIdentity:
		return eachMember(value, nameKeys, func(key int, _, value []byte) error {
			if key != unknown && isString(value) {
				c.Name = string(unquote(value))
			}
			return nil
		})
	}
	return nil
}

// Canonical returns a JSON object in the form of RFC 8785, so that two that mean
// the same are the same bytes. It is an error if the object has a repeated name.
func Canonical(object []byte) ([]byte, error) {
	value := jsontext.Value(object).Clone()
	if err := value.Canonicalize(); err != nil {
		return nil, malformed(err)
	}
	return value, nil
}
