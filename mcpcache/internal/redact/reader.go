package redact

import (
	"bytes"
	"io"
)

// Reader returns a body in which asterisks, as many as there were bytes, stand
// for the secrets. It holds nothing back that cannot be part of one.
func (s *Secrets) Reader(body io.ReadCloser) io.ReadCloser {
	if s == nil {
		return body
	}
	return &reader{ReadCloser: body, secrets: s}
}

type reader struct {
	io.ReadCloser
	secrets *Secrets
	ready   []byte // to be handed out
	held    []byte // what may be the beginning of a secret
	err     error  // of the body, to be returned after all that
}

// Read implements [io.Reader].
func (r *reader) Read(p []byte) (int, error) {
	for len(r.ready) == 0 {
		if r.err != nil || len(p) == 0 {
			return 0, r.err
		}
		n, err := r.ReadCloser.Read(p)
		r.take(p[:n], err)
	}
	n := copy(p, r.ready)
	r.ready = r.ready[n:]
	return n, nil
}

// take hides what is in the bytes that have been read, together with those
// that were held back.
func (r *reader) take(read []byte, err error) {
	text := append(r.held, read...)
	ready, held := r.secrets.scan(text, err != nil, func(to []byte, length int) []byte {
		return append(to, bytes.Repeat([]byte("*"), length)...)
	})
	r.ready, r.held, r.err = ready, bytes.Clone(held), r.secrets.Error(err)
}
