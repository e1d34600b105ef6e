package message

// Diff is how the items of two lists differ. Items are called by what tells them
// apart: names, URIs, URI templates.
type Diff struct {
	Added   []string
	Removed []string
	// Changed are items that both have, but not byte for byte.
	Changed []string
	// More is how many items differ besides those that are named.
	More int

	named int // bytes of the names
}

// Of a long list only so many differences are named, and with names of so many
// bytes.
const (
	maxNamed      = 10_000
	maxNamedBytes = 1 << 20
)

// Compare tells how the items of now differ from those of before, which may be
// nil.
func Compare(before, now *Body) Diff {
	var d Diff
	was := indexOf(before)
	kept := make([]uint64, (len(was.names)+63)/64) // those that are still there, a bit for each
	known := keys(now.kind.IDKey())
	for item := range now.Each() {
		name := nameOf(item, known)
		i, ok := was.set.get(name)
		switch {
		case !ok:
			d.note(&d.Added, name)
			continue
		case string(was.item(i)) != string(item):
			d.note(&d.Changed, name)
		}
		kept[i/64] |= 1 << (i % 64)
	}
	for i := range uint32(len(was.names)) {
		if kept[i/64]&(1<<(i%64)) == 0 {
			d.note(&d.Removed, was.name(i))
		}
	}
	return d
}

func (d *Diff) note(list *[]string, name []byte) {
	if len(d.Added)+len(d.Removed)+len(d.Changed) >= maxNamed || d.named+len(name) > maxNamedBytes {
		d.More++
		return
	}
	d.named += len(name)
	*list = append(*list, string(name))
}

// bodyIndex finds items of a body by their names.
type bodyIndex struct {
	body   *Body
	starts []uint32 // of the items
	names  []uint32 // where their names begin
	set    *nameSet
}

// indexOf returns the index of a body, which may be nil.
func indexOf(b *Body) *bodyIndex {
	x := &bodyIndex{body: b}
	if b == nil {
		x.set = newNameSet(0, nil)
		return x
	}
	x.starts, x.names = make([]uint32, 0, b.Items), make([]uint32, 0, b.Items)
	x.set = newNameSet(len(b.lengths), x.name)
	known := keys(b.kind.IDKey())
	start := b.first
	for item := range b.Each() {
		offset, _ := nameOffset(item, known) // cannot fail: the item has been parsed before
		x.starts = append(x.starts, uint32(start))
		x.names = append(x.names, uint32(start+offset))
		x.set.add(uint32(len(x.names) - 1))
		start += len(item) + len(",")
	}
	return x
}

func (x *bodyIndex) name(i uint32) []byte { return unquote(leadingString(x.body.Bytes[x.names[i]:])) }

func (x *bodyIndex) item(i uint32) []byte {
	start := x.starts[i]
	return x.body.Bytes[start : start+x.body.lengths[i]]
}
