package revision

// Kinds that a notice concerns, as a set of bits: 1<<Kind.
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
