package probe

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// Options say what to examine and how much of it.
type Options struct {
	// URL is that of the MCP endpoint. Without a scheme it means http, without
	// a path /mcp; a port alone is one of 127.0.0.1.
	URL string
	// Callers are the headers of up to two callers. None means one caller
	// without headers of its own.
	Callers []http.Header
	// Eras are those to examine; none means both.
	Eras []revision.Era
	// Timeout bounds each answer, from the request to its last byte.
	Timeout time.Duration
	// Total bounds the whole examination.
	Total time.Duration
	// MaxList is the most bytes of one list, MaxPages the most pages of one.
	MaxList  int64
	MaxPages int

	patience time.Duration // for the answer to a notification; 0 is what the cache has
}

// Callers sorts headers, each written as "Name: value", into those of one
// caller or two: where a name is given twice, the second value is that of the
// second caller, who otherwise sends what the first one sends. No error repeats
// a value.
func Callers(headers []string) ([]http.Header, error) {
	first, second := http.Header{}, http.Header{}
	for i, header := range headers {
		name, value, err := parseHeader(i+1, header)
		switch {
		case err != nil:
			return nil, err
		case second.Get(name) != "":
			return nil, fmt.Errorf("header %s is given three times: two callers are compared, the first value is the first one's, the second the other's", name)
		case first.Get(name) != "":
			second.Set(name, value)
		default:
			first.Set(name, value)
		}
	}
	callers := []http.Header{first}
	if len(second) > 0 {
		for name := range first {
			if second.Get(name) == "" {
				second.Set(name, first.Get(name))
			}
		}
		callers = append(callers, second)
	}
	return callers, nil
}

// Headers reads headers, each written as "Name: value", of one caller. No error
// repeats a value.
func Headers(headers []string) (http.Header, error) {
	all := http.Header{}
	for i, header := range headers {
		name, value, err := parseHeader(i+1, header)
		switch {
		case err != nil:
			return nil, err
		case all.Get(name) != "":
			return nil, fmt.Errorf("header %s is given twice", name)
		}
		all.Set(name, value)
	}
	return all, nil
}

// parseHeader reads the header of that number.
func parseHeader(number int, header string) (name, value string, err error) {
	name, value, found := strings.Cut(header, ":")
	name, value = http.CanonicalHeaderKey(strings.TrimSpace(name)), strings.TrimSpace(value)
	switch {
	case !found || !headerName.MatchString(name):
		err = fmt.Errorf("header %d is not of the form \"Name: value\"", number)
	case value == "":
		err = fmt.Errorf("header %d, %s, has no value", number, name)
	case !isVisible(value):
		err = fmt.Errorf("the value of header %d, %s, has characters that a header cannot have", number, name)
	case ours(name):
		err = fmt.Errorf("header %s is the protocol's own and cannot be chosen", name)
	}
	return name, value, err
}

// headerName matches the names that headers have. HTTP allows more characters, and
// some of these mean something else in a Caddyfile.
var headerName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)

// ours reports whether a header is one that the examination itself sets.
func ours(name string) bool {
	switch name {
	case "Accept", "Accept-Encoding", "Connection", "Content-Length", "Content-Type", "Host", "Last-Event-Id", "Transfer-Encoding":
		return true
	}
	return strings.HasPrefix(name, "Mcp-")
}

func isVisible(value string) bool {
	return value != "" && !strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}

// DefaultPath is the path of an endpoint whose URL has none.
const DefaultPath = "/mcp"

// ParseURL returns the URL that an operator means. Its errors repeat nothing of it.
func ParseURL(text string) (*url.URL, error) {
	const example = "it has to be like http://127.0.0.1:3001/mcp"
	if port, err := strconv.ParseUint(text, 10, 16); err == nil && port > 0 {
		text = "127.0.0.1:" + text
	}
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, errors.New("the URL cannot be read: " + example)
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("the URL is not one of http or https: " + example)
	case u.Hostname() == "":
		return nil, errors.New("the URL names no host: " + example)
	case u.User != nil:
		return nil, errors.New("the URL holds a user or password, which the cache takes from no URL: give them as --header \"Authorization: Basic …\"")
	case u.RawQuery != "" || u.Fragment != "" || u.ForceQuery:
		return nil, errors.New("the URL has a query or fragment, which an upstream of the cache cannot have: " + example)
	}
	if u.Path == "" {
		u.Path = DefaultPath
	}
	return u, nil
}
