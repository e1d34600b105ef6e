package sse

import "bytes"

// Splitter takes an event stream apart that arrives in pieces. An event is there as soon as
// the blank line after it has begun, however the line ends. It has to have a MaxEvent.
type Splitter struct {
	// MaxEvent is how many bytes of data an event may have.
	MaxEvent int
	// Comments says that each comment counts as an event without data, too: servers send them
	// so that a connection is not taken for dead.
	Comments bool

	line   []byte // of the line that is being read
	skipLF bool   // the last line ended in CR, so that LF would belong to it
	begun  bool   // the first line has been read

	name string
	data []byte // with a \n after each line
	over bool   // the event has been returned
}

// Next returns the next event that is complete with the bytes of p, and what of them follows
// it. If there is none, found is false and all of p has been taken. An error, which is
// [ErrTooLarge], is final.
func (s *Splitter) Next(p []byte) (e Event, rest []byte, found bool, err error) {
	if s.over {
		s.name, s.data, s.over = "", kept(s.data), false
	}
	for len(p) > 0 {
		if s.skipLF {
			s.skipLF = false
			if p[0] == '\n' {
				p = p[1:]
				continue
			}
		}
		n := lineEnd(p)
		if len(s.line)+n > s.MaxEvent+lineOverhead {
			return Event{}, nil, false, ErrTooLarge
		}
		s.line = append(s.line, p[:n]...)
		if n == len(p) {
			break
		}
		s.skipLF = p[n] == '\r'
		p = p[n+1:]
		e, found, err = s.endLine()
		s.line = kept(s.line[:0])
		if found || err != nil {
			return e, p, found, err
		}
	}
	return Event{}, nil, false, nil
}

// endLine takes in the line that has ended.
func (s *Splitter) endLine() (e Event, found bool, err error) {
	line := s.line
	if !s.begun {
		s.begun = true
		line = bytes.TrimPrefix(line, bom)
	}
	switch {
	case len(line) > 0 && line[0] == ':':
		return Event{Comment: true}, s.Comments, nil
	case len(line) > 0:
		return Event{}, false, s.field(line)
	case len(s.data) == 0:
		s.name = ""
		return Event{}, false, nil
	}
	if s.name == "" {
		s.name = "message"
	}
	s.over = true
	return Event{Name: s.name, Data: s.data[:len(s.data)-1]}, true, nil
}

// field handles a line that is not blank.
func (s *Splitter) field(line []byte) error {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "data":
		if len(s.data)+len(value) > s.MaxEvent {
			return ErrTooLarge
		}
		if len(s.data) == 0 && len(line) > keptBuffer { // a long one is not copied
			s.data, s.line = append(value, '\n'), s.data
			return nil
		}
		s.data = append(append(s.data, value...), '\n')
	case "event":
		s.name = string(value)
	}
	return nil
}

// Held returns how many bytes are kept of what is not complete.
func (s *Splitter) Held() int { return cap(s.line) + cap(s.data) }
