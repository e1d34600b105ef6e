package revision

// Kind is a kind of answer that is cached.
type Kind uint8

const (
	Tools Kind = iota
	Prompts
	Resources
	ResourceTemplates
	Discover
	// Reads are the contents of single resources. They are cached by URI on
	// their way to a client; no feed fetches them.
	Reads

	// NumKinds is the length of an array that is indexed by Kind.
	NumKinds = int(Reads) + 1
)

type kindRow struct {
	name, method, items, id, capability string
}

var kinds = [NumKinds]kindRow{
	Tools:             {"tools", "tools/list", "tools", "name", "tools"},
	Prompts:           {"prompts", "prompts/list", "prompts", "name", "prompts"},
	Resources:         {"resources", "resources/list", "resources", "uri", "resources"},
	ResourceTemplates: {"resource_templates", "resources/templates/list", "resourceTemplates", "uriTemplate", "resources"},
	Discover:          {"discover", "server/discover", "", "", ""},
	Reads:             {"reads", "resources/read", "", "", "resources"},
}

// Kinds returns the kinds that a feed keeps, in the order it fetches them.
func Kinds() []Kind {
	return []Kind{Tools, Prompts, Resources, ResourceTemplates, Discover}
}

// KindNames returns the names of the kinds that a feed keeps.
func KindNames() []string { return namesOf(func(Kind) bool { return true }) }

// ListNames returns the names of those that are lists of items.
func ListNames() []string { return namesOf(func(k Kind) bool { return k.ItemsKey() != "" }) }

func namesOf(chosen func(Kind) bool) []string {
	names := make([]string, 0, len(kinds))
	for _, k := range Kinds() {
		if chosen(k) {
			names = append(names, k.String())
		}
	}
	return names
}

// ParseKind returns the kind with that name. Reads have none: they follow Resources.
func ParseKind(name string) (Kind, bool) {
	for _, k := range Kinds() {
		if kinds[k].name == name {
			return k, true
		}
	}
	return 0, false
}

// KindOf returns the kind that a request method asks for.
func KindOf(method string) (Kind, bool) {
	switch method {
	case "tools/list":
		return Tools, true
	case "prompts/list":
		return Prompts, true
	case "resources/list":
		return Resources, true
	case "resources/templates/list":
		return ResourceTemplates, true
	case "server/discover":
		return Discover, true
	case "resources/read":
		return Reads, true
	}
	return 0, false
}

// String returns the name that configuration, metrics and the admin API use.
func (k Kind) String() string { return kinds[k].name }

// Method returns the JSON-RPC method that asks for k.
func (k Kind) Method() string { return kinds[k].method }

// ItemsKey returns the result member that holds the items, such as
// "resourceTemplates"; "" for kinds that are not lists.
func (k Kind) ItemsKey() string { return kinds[k].items }

// IDKey returns the member that tells one item from another, such as "name"
// or "uri"; "" for kinds that are not lists.
func (k Kind) IDKey() string { return kinds[k].id }

// Capability returns the server capability without which k cannot be asked
// for; "" when it always can.
func (k Kind) Capability() string { return kinds[k].capability }

// In reports whether revision r has the kind at all.
func (k Kind) In(r Revision) bool {
	return k != Discover || r.Era() == Modern
}
