package placeholder

// Resolver resolves options and keeps the first error. Options
// that are not set stay so.
type Resolver struct {
	// Err is the first error.
	Err error
}

// Keep keeps an error that the caller has found, if it is the first.
func (r *Resolver) Keep(err error) {
	if r.Err == nil {
		r.Err = err
	}
}

// Text resolves an option that is a text.
func (r *Resolver) Text(option string, value *string) {
	if *value == "" {
		return
	}
	resolved, err := Resolve(option, *value)
	r.Keep(err)
	*value = resolved
}

// Path resolves an option that is the path of a file.
func (r *Resolver) Path(option string, value *string) {
	if *value == "" {
		return
	}
	resolved, err := Path(option, *value)
	r.Keep(err)
	*value = resolved
}

// List returns the resolved values of an option that has several.
func (r *Resolver) List(option string, values []string) []string {
	resolved := make([]string, 0, len(values))
	for _, value := range values {
		text, err := Resolve(option, value)
		r.Keep(err)
		resolved = append(resolved, text)
	}
	return resolved
}

// Params returns the resolved values of an option that has a name for each.
func (r *Resolver) Params(option string, values map[string]string) map[string]string {
	resolved := make(map[string]string, len(values))
	for name, value := range values {
		text, err := Resolve(option+" "+name, value)
		r.Keep(err)
		resolved[name] = text
	}
	return resolved
}
