package reply

import (
	"io"
	"sync"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/encoded"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/encoded/splice"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/sse"
)

// outputSize is the size of the buffers for whole answers, in bytes. A compressed
// answer of up to 64 KiB fits with its prefix.
const outputSize = 64<<10 + maxPrefix + splice.MaxOverhead

var outputs = sync.Pool{New: func() any { return &output{buf: make([]byte, 0, outputSize)} }}

// output collects the parts of an answer and writes them in large pieces.
type output struct {
	buf []byte
	to  io.Writer
}

// release gives the buffer back.
func (o *output) release() {
	o.buf, o.to = o.buf[:0], nil
	outputs.Put(o)
}

// writeEntry writes a prefix and an entry in a framing. It ends early when the
// client has gone.
func (o *output) writeEntry(w io.Writer, prefix []byte, e *cache.Entry, framing encoded.Framing) error {
	o.to = w
	add := o.add
	if framing == encoded.Event {
		add = o.addData
	}
	err := o.add(prefix)
	if err == nil {
		err = e.EachPart(add)
	}
	if err == nil && framing == encoded.Event {
		err = o.addText(sse.End)
	}
	if err == nil {
		err = o.flush()
	}
	return err
}

// add adds bytes. What is larger than the buffer is not copied.
func (o *output) add(p []byte) error {
	if len(p) > cap(o.buf)-len(o.buf) {
		if err := o.flush(); err != nil {
			return err
		}
		if len(p) > cap(o.buf) {
			_, err := o.to.Write(p)
			return err
		}
	}
	o.buf = append(o.buf, p...)
	return nil
}

func (o *output) addText(s string) error {
	if len(s) > cap(o.buf)-len(o.buf) {
		if err := o.flush(); err != nil {
			return err
		}
	}
	o.buf = append(o.buf, s...)
	return nil
}

// addData adds bytes as data of an event.
func (o *output) addData(p []byte) error {
	for {
		line, rest, found := sse.CutLine(p)
		if err := o.add(line); err != nil || !found {
			return err
		}
		if err := o.addText(sse.NextLine); err != nil {
			return err
		}
		p = rest
	}
}

func (o *output) flush() error {
	if len(o.buf) == 0 {
		return nil
	}
	_, err := o.to.Write(o.buf)
	o.buf = o.buf[:0]
	return err
}
