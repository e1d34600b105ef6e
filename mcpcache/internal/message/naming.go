package message

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// Naming is what one message of a client names.
type Naming struct {
	ID     []byte // raw JSON of "id"; nil if there is none
	Method string // "" of a response
	Items  []Named
	// Task is the ID of the task that a method below tasks/ is about.
	Task string
}

// Named is an item that a message names: a tool or prompt by its name, a resource
// by its URI, a template by what its completion is asked for.
type Named struct {
	Kind revision.Kind
	Name string
}

// ErrMethod says that a message has a method of which nobody knows what it names.
var ErrMethod = errors.New("unknown method")

const (
	namingName = iota
	namingURI
	namingRef
	namingNotifications
	namingType
	namingSubscriptions
	namingTask
	numNaming
)

// named is where a method has what it names.
type named struct {
	kind   revision.Kind
	member int // of params, by namingKeys
	header bool
}

// methodsNaming are the methods that name one item in their params.
var methodsNaming = map[string]named{
	"tools/call":            {revision.Tools, namingName, true},
	"prompts/get":           {revision.Prompts, namingName, true},
	"resources/read":        {revision.Resources, namingURI, true},
	"resources/subscribe":   {revision.Resources, namingURI, false},
	"resources/unsubscribe": {revision.Resources, namingURI, false},
}

// NamedInHeader returns the member of params that the header Mcp-Name of a modern request of that method has to
// repeat (2026-07-28, "Streamable HTTP", "Standard Request Headers"). It reports false if there is none.
func NamedInHeader(method string) (member string, ok bool) {
	of := methodsNaming[method]
	return string(namingKeys[of.member]), of.header
}

// Path returns the path of the name of the only item in the message, such as params, name. It returns nil if the
// message does not name exactly one item.
func (n *Naming) Path() []string {
	if of, known := methodsNaming[n.Method]; known {
		return []string{"params", string(namingKeys[of.member])}
	}
	if n.Method != "completion/complete" || len(n.Items) != 1 {
		return nil
	}
	if n.Items[0].Kind == revision.Prompts {
		return []string{"params", "ref", "name"}
	}
	return []string{"params", "ref", "uri"}
}

// namingKeys are the members that name items, wherever they are.
var namingKeys = keys("name", "uri", "ref", "notifications", "type", "resourceSubscriptions", "taskId")

// MayBeRPC reports whether a body may be a message of JSON-RPC, or a batch, to some
// parser: it looks like JSON, and is neither an object that certainly has no method and no
// version, nor an array of such objects and of what is none.
func MayBeRPC(body []byte) bool {
	if !LooksLikeJSON(body) {
		return false
	}
	rpc := false
	if IsBatch(body) {
		err := eachElement(body, func(one []byte) error {
			rpc = rpc || IsBatch(one) || MayBeRPC(one)
			return nil
		})
		return err != nil || rpc
	}
	err := eachMember(body, topKeys, func(key int, _, _ []byte) error {
		rpc = rpc || key == topJSONRPC || key == topMethod
		return nil
	})
	return err != nil || rpc
}

// LooksLikeJSON reports whether a text may be an object or an array of JSON to some
// parser: in whatever character set, and behind a comment.
func LooksLikeJSON(text []byte) bool {
	start := skipOdd(text)
	if len(start) == 0 {
		return false
	}
	return start[0] == '{' || start[0] == '[' || bytes.HasPrefix(start, []byte("/*")) || bytes.HasPrefix(start, []byte("//"))
}

// skipOdd leaves out what some parser may skip: white space, NULs, marks of a byte order.
func skipOdd(text []byte) []byte {
	return bytes.TrimLeftFunc(text, func(c rune) bool { return c <= ' ' || c > '~' })
}

// MayBecomeJSON reports whether a text of which this is the beginning may be JSON to some
// parser.
func MayBecomeJSON(beginning []byte) bool {
	return LooksLikeJSON(beginning) || len(skipOdd(beginning)) == 0
}

// ParseNaming returns what the messages of a body name. It is an error if parsers
// may disagree about that: [ErrAmbiguous] if a member is repeated, differs from
// one of the protocol's in case only or in what follows a NUL, or names an item with a NUL, [ErrMethod] if the method is an unknown one
// below those of tools, prompts, resources and completion, and else [ErrInvalid].
// A naming that comes with an error has the id, if that is known; those of the messages
// behind it come all the same, as each wants an answer.
func ParseNaming(body []byte) (found []Naming, err error) {
	if !IsBatch(body) {
		one, err := parseNaming(body)
		return []Naming{one}, err
	}
	var first error
	err = eachElement(body, func(value []byte) error {
		one, err := parseNaming(value)
		found, first = append(found, one), cmp.Or(first, err)
		return nil
	})
	return found, cmp.Or(first, err)
}

func parseNaming(body []byte) (n Naming, err error) {
	var params []byte
	method := false
	err = eachMember(body, topKeys, func(key int, _, value []byte) error {
		switch key {
		case topID:
			if !validID(value) {
				return invalid("id is no id")
			}
			n.ID = value
		case topMethod:
			if method = isString(value); !method {
				return invalid("method is not a string")
			}
			n.Method = string(unquote(value))
		case topParams:
			params = value
		}
		return nil
	})
	if err != nil || !method {
		return n, err
	}
	var said [numNaming][]byte // by key
	if params != nil {
		if err := membersOf(params, &said); err != nil {
			return n, err
		}
	}
	return n, n.read(&said)
}

// read finds what the method names by those members of its params.
func (n *Naming) read(said *[numNaming][]byte) error {
	if of, known := methodsNaming[n.Method]; known {
		return n.name(of.kind, said[of.member])
	}
	switch n.Method {
	case "completion/complete":
		return n.completed(said[namingRef])
	case "subscriptions/listen":
		return n.subscribed(said[namingNotifications])
	case "tools/list", "prompts/list", "resources/list", "resources/templates/list":
		return nil
	}
	if strings.HasPrefix(n.Method, "tasks/") && said[namingTask] != nil && isString(said[namingTask]) {
		n.Task = string(unquote(said[namingTask]))
	}
	method := strings.Map(visible, n.Method)
	for _, below := range [...]string{"tools/", "prompts/", "resources/", "completion/", "subscriptions/"} {
		if len(method) >= len(below) && strings.EqualFold(method[:len(below)], below) {
			return fmt.Errorf("%w %.100q", ErrMethod, n.Method)
		}
	}
	return nil
}

// visible drops white space and what cannot be seen, such as control characters, from what
// is mapped: lenient servers do so with the names of methods.
func visible(r rune) rune {
	if unicode.IsSpace(r) || !unicode.IsGraphic(r) {
		return -1
	}
	return r
}

// membersOf returns the raw values of an object's members that name items.
func membersOf(object []byte, said *[numNaming][]byte) error {
	return eachMember(object, namingKeys, func(key int, _, value []byte) error {
		if key != unknown {
			said[key] = value
		}
		return nil
	})
}

func (n *Naming) name(k revision.Kind, raw []byte) error {
	if raw == nil || !isString(raw) {
		return invalid("the name is missing or not a string")
	}
	return n.add(k, string(unquote(raw)))
}

// add adds an item. A name with a NUL in it is ambiguous: to a server written in C it
// ends there.
func (n *Naming) add(k revision.Kind, name string) error {
	if strings.IndexByte(name, 0) >= 0 {
		return fmt.Errorf("%w: a name or URI has a NUL in it", ErrAmbiguous)
	}
	n.Items = append(n.Items, Named{k, name})
	return nil
}

// completed reads what completion is asked for (CompleteRequest). A ref has the name of a
// prompt or the URI of a template: of one with both, servers that do not go by its type may
// take the other.
func (n *Naming) completed(ref []byte) error {
	if ref == nil {
		return invalid("no ref")
	}
	var said [numNaming][]byte
	if err := membersOf(ref, &said); err != nil {
		return err
	}
	if said[namingType] == nil || !isString(said[namingType]) {
		return invalid("ref has no type")
	}
	if said[namingName] != nil && said[namingURI] != nil {
		return fmt.Errorf("%w: ref has both name and uri", ErrAmbiguous)
	}
	switch string(unquote(said[namingType])) {
	case "ref/prompt":
		return n.name(revision.Prompts, said[namingName])
	case "ref/resource":
		return n.name(revision.ResourceTemplates, said[namingURI])
	}
	return invalid("ref has an unknown type")
}

// subscribed reads which resources a stream is to tell of (2026-07-28,
// "subscriptions/listen").
func (n *Naming) subscribed(notifications []byte) error {
	if notifications == nil {
		return nil
	}
	var said [numNaming][]byte
	if err := membersOf(notifications, &said); err != nil || said[namingSubscriptions] == nil {
		return err
	}
	uris, err := stringList(said[namingSubscriptions])
	for _, uri := range uris {
		err = cmp.Or(err, n.add(revision.Resources, uri))
	}
	return err
}
