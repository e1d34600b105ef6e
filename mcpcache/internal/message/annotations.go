package message

// Annotations are what a tool says of itself (2025-03-26 and later,
// "ToolAnnotations"). Of what it does not say the specification's defaults are
// taken, which are the dangerous ones.
type Annotations struct {
	ReadOnly    bool // it changes nothing. Default: false
	Destructive bool // what it changes may be lost. Default: true, unless it is read-only
	Idempotent  bool // calling it again changes nothing more. Default: false, unless it is read-only
	OpenWorld   bool // it deals with what is outside of the server. Default: true
}

const (
	hintReadOnly = iota
	hintDestructive
	hintIdempotent
	hintOpenWorld
)

var (
	toolKeys = keys("annotations")
	hintKeys = keys("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
)

// AnnotationsOf returns the annotations of a tool, as written. What parsers may
// read differently says nothing.
func AnnotationsOf(tool []byte) Annotations {
	var raw []byte
	err := eachMember(tool, toolKeys, func(key int, _, value []byte) error {
		if key != unknown {
			raw = value
		}
		return nil
	})
	var said [4]string
	if err == nil && raw != nil {
		err = eachMember(raw, hintKeys, func(key int, _, value []byte) error {
			if key != unknown {
				said[key] = string(value)
			}
			return nil
		})
	}
	if err != nil {
		said = [4]string{}
	}
	readOnly := said[hintReadOnly] == "true"
	return Annotations{
		ReadOnly:    readOnly,
		Destructive: !readOnly && said[hintDestructive] != "false",
		Idempotent:  readOnly || said[hintIdempotent] == "true",
		OpenWorld:   said[hintOpenWorld] != "false",
	}
}
