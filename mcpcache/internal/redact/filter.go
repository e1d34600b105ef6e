package redact

import "bytes"

// Filter hides secrets in a text that comes in parts. The nil Filter hides nothing.
type Filter struct {
	secrets *Secrets
	held    []byte // what may be the beginning of a secret
}

// Filter returns one, which is nil if there is nothing to hide.
func (s *Secrets) Filter() *Filter {
	if s == nil {
		return nil
	}
	return &Filter{secrets: s}
}

// Next takes the next part of the text, and returns what is ready of it: asterisks, as many
// as there were bytes, stand for the secrets. It holds back what may be the beginning of one,
// but of the last part nothing.
func (f *Filter) Next(part []byte, last bool) []byte {
	if f == nil {
		return part
	}
	ready, held := f.secrets.scan(append(f.held, part...), last, func(to []byte, length int) []byte {
		return append(to, bytes.Repeat([]byte("*"), length)...)
	})
	f.held = bytes.Clone(held)
	return ready
}
