package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/tidwall/jsonc"
)

// mcpConfig is what clients keep of their servers in JSON: as members of `mcpServers`, as those
// of Claude, Cursor and others do, or of `servers`, as VS Code does.
type mcpConfig struct {
	servers []served
	unused  []string // what of the file means nothing here
}

// readMCPConfig reads such a file.
func readMCPConfig(file string, v variables) (*mcpConfig, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	c := new(mcpConfig)
	content = jsonc.ToJSON(bytes.TrimPrefix(content, []byte("\ufeff"))) // VS Code's has comments
	if err := c.read(content, v); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return c, nil
}

func (c *mcpConfig) read(content []byte, v variables) error {
	if err := checkJSON(content); err != nil {
		return err
	}
	all, err := members(content)
	if err != nil {
		return err
	}
	for _, part := range all {
		if part.name != "mcpServers" && part.name != "servers" {
			c.unused = append(c.unused, part.name)
			continue
		}
		servers, err := members(part.value)
		if err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
		for _, server := range servers {
			if err := c.add(server, v); err != nil {
				return fmt.Errorf("%q: %w", server.name, err)
			}
		}
	}
	if len(c.servers) == 0 {
		err := errors.New("it has no server to use: they are members of mcpServers, or of servers")
		if len(c.unused) > 0 {
			err = fmt.Errorf("%w; not used is %s", err, printable(strings.Join(c.unused, ", ")))
		}
		return err
	}
	return nil
}

// checkJSON returns an error that says where a text is not JSON.
func checkJSON(text []byte) error {
	var whole any
	err := json.Unmarshal(text, &whole)
	if wrong, ok := errors.AsType[*json.SyntaxError](err); ok {
		line := 1 + bytes.Count(text[:min(len(text), int(wrong.Offset))], []byte("\n"))
		return fmt.Errorf("line %d is not JSON: %w", line, err)
	}
	return err
}

// add adds a server of the file.
func (c *mcpConfig) add(m member, v variables) error {
	fields, err := members(m.value)
	if err != nil {
		return err
	}
	if reason := leftOut(fields); reason != "" {
		c.unused = append(c.unused, m.name+", which is "+reason)
		return nil
	}
	server, unused, err := readMCPServer(fields)
	if err != nil {
		return err
	}
	for _, what := range unused {
		c.unused = append(c.unused, m.name+"."+what)
	}
	s, err := server.served(v)
	if err != nil {
		return err
	}
	s.name = serverName(m.name)
	if err := checkServed(s); err != nil {
		return err
	}
	if slices.ContainsFunc(c.servers, func(other served) bool { return other.name == s.name }) {
		return fmt.Errorf("two servers are called %s", s.name)
	}
	c.servers = append(c.servers, s)
	return nil
}

// serverName returns the name that a server of a file has here.
func serverName(name string) string {
	return strings.Map(func(c rune) rune {
		if 'a' <= c && c <= 'z' || '0' <= c && c <= '9' {
			return c
		}
		return '-'
	}, strings.ToLower(name))
}

// member is one of a JSON object.
type member struct {
	name  string
	value json.RawMessage
}

// members returns those of an object, which is JSON, in their order.
func members(object []byte) (all []member, err error) {
	d := json.NewDecoder(bytes.NewReader(object))
	if first, err := d.Token(); err != nil || first != json.Delim('{') {
		return nil, errors.New("it is not a JSON object")
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		m := member{name: name.(string)}
		if err := d.Decode(&m.value); err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}
