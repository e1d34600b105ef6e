package redact

import "io"

// Reader returns a body in which asterisks, as many as there were bytes, stand
// for the secrets. It holds nothing back that cannot be part of one.
func (s *Secrets) Reader(body io.ReadCloser) io.ReadCloser {
	if s == nil {
		return body
	}
	return &reader{ReadCloser: body, secrets: s, filter: s.Filter()}
}

type reader struct {
	io.ReadCloser
	secrets *Secrets
	filter  *Filter
	ready   []byte // to be handed out
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
	r.ready, r.err = r.filter.Next(read, err != nil), r.secrets.Error(err)
}
