package revision

// KindSet is a set of kinds, as bits: 1<<Kind. A notice concerns such a set.
type KindSet uint8

// SetOf returns the set of those kinds.
func SetOf(kinds ...Kind) KindSet {
	var s KindSet
	for _, k := range kinds {
		s |= 1 << k
	}
	return s
}

// Has reports whether k is in the set.
func (s KindSet) Has(k Kind) bool { return s&(1<<k) != 0 }

// Changed returns the kinds that a notification says have changed, none for
// any other method. One resources/list_changed concerns resources and
// templates alike (SEP-2549, "Motivation"); no notice exists for
// server/discover, only its TTL governs it.
func Changed(method string) KindSet {
	switch method {
	case "notifications/tools/list_changed":
		return SetOf(Tools)
	case "notifications/prompts/list_changed":
		return SetOf(Prompts)
	case "notifications/resources/list_changed":
		return SetOf(Resources, ResourceTemplates)
	case "notifications/resources/updated":
		return SetOf(Reads)
	}
	return 0
}

// IsListChanged reports whether a notification says that a list has changed.
func IsListChanged(method string) bool {
	return Changed(method)&SetOf(Tools, Prompts, Resources) != 0
}

// ChangeOf returns the method of the notification that says that lists of k have changed;
// "" if there is none.
func ChangeOf(k Kind) string {
	switch k {
	case Tools:
		return "notifications/tools/list_changed"
	case Prompts:
		return "notifications/prompts/list_changed"
	case Resources, ResourceTemplates:
		return "notifications/resources/list_changed"
	case Discover, Reads:
	}
	return ""
}
