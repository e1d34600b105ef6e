package splice

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"
)

// decoder is a program that decodes its standard input.
type decoder struct {
	name    string
	enc     Encoding
	command []string
	// needs prints something if the program can do it. Nil: it always can.
	needs []string
}

const (
	pythonIO = "import sys; i=sys.stdin.buffer.read(); o=sys.stdout.buffer.write; "
	// Not one byte may be left over, and the decoder must have seen the end.
	pythonEnd = "o(d.decompress(i)); assert d.eof and not d.unused_data"
	nodeIO    = "const z=require('zlib'); const i=require('fs').readFileSync(0); const o=b=>require('fs').writeFileSync(1,b); "
)

var decoders = []decoder{
	{name: "gzip command", enc: Gzip, command: []string{"gzip", "-dc"}},
	{name: "zstd command", enc: Zstd, command: []string{"zstd", "-dc"}},
	{name: "python gzip", enc: Gzip, command: []string{"python3", "-c", "import gzip; " + pythonIO + "o(gzip.decompress(i))"}},
	{name: "python zlib", enc: Gzip, command: []string{"python3", "-c", "import zlib; " + pythonIO + "d=zlib.decompressobj(31); " + pythonEnd}},
	{
		name: "python zstandard", enc: Zstd,
		command: []string{"python3", "-c", "import zstandard; " + pythonIO + "d=zstandard.ZstdDecompressor().decompressobj(); " + pythonEnd},
		needs:   []string{"python3", "-c", "import zstandard; print(1)"},
	},
	{
		name: "python compression.zstd", enc: Zstd,
		command: []string{"python3", "-c", "from compression import zstd; " + pythonIO + "d=zstd.ZstdDecompressor(); " + pythonEnd},
		needs:   []string{"python3", "-c", "from compression import zstd; print(1)"},
	},
	{name: "node gunzipSync", enc: Gzip, command: []string{"node", "-e", nodeIO + "o(z.gunzipSync(i))"}},
	{
		name: "node zstdDecompressSync", enc: Zstd,
		command: []string{"node", "-e", nodeIO + "o(z.zstdDecompressSync(i))"},
		needs:   []string{"node", "-e", "if (require('zlib').zstdDecompressSync) console.log(1)"},
	},
}

// here reports whether the program is installed and can do what it is for.
func (d decoder) here() bool {
	if _, err := exec.LookPath(d.command[0]); err != nil {
		return false
	}
	if d.needs == nil {
		return true
	}
	out, err := exec.Command(d.needs[0], d.needs[1:]...).Output()
	return err == nil && len(out) > 0
}

// TestOtherDecoders gives answers to every other decoder on this machine.
func TestOtherDecoders(t *testing.T) {
	w := mustWorker(t)
	examples := []struct {
		prefix []byte
		body   string
		e      *Encoded
	}{
		{prefix: nil, body: "empty"},
		{prefix: []byte(probe), body: "1 KiB"},
		{prefix: nil, body: "40 KB"},
		{prefix: prefixes()[len(prefixes())-1], body: "40 KB"},
		{prefix: []byte(probe), body: "4 MB"},
		{prefix: []byte("{"), body: "incompressible"},
	}
	for i, example := range examples {
		examples[i].e = encodeAnyway(t, w, bodies()[example.body])
	}
	for _, d := range decoders {
		if !d.here() {
			continue
		}
		t.Run(strings.ReplaceAll(d.name, " ", "_"), func(t *testing.T) {
			for _, example := range examples {
				cmd := exec.Command(d.command[0], d.command[1:]...)
				cmd.Stdin = bytes.NewReader(answer(t, example.e, nil, d.enc, example.prefix))
				var stdout, stderr bytes.Buffer
				cmd.Stdout, cmd.Stderr = &stdout, &stderr
				if err := cmd.Run(); err != nil {
					t.Fatalf("prefix %d, body %s: %v: %s", len(example.prefix), example.body, err, &stderr)
				}
				if !bytes.Equal(stdout.Bytes(), append(bytes.Clone(example.prefix), bodies()[example.body]...)) {
					t.Errorf("prefix %d, body %s: decoded bytes differ", len(example.prefix), example.body)
				}
			}
		})
	}
}
