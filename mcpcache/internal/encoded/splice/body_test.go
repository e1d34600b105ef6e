package splice

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
)

// listBody returns something like the end of a tools/list answer: the result
// with n tools, about 800 bytes each, and the brace that closes the message.
func listBody(n int) []byte {
	rng := rand.New(rand.NewPCG(7, uint64(n)))
	vocabulary := make([]string, 1500)
	for i := range vocabulary {
		vocabulary[i] = word(rng)
	}
	words := func(n int) string {
		s := make([]string, n)
		for i := range s {
			// The square makes some words much more frequent than others.
			f := rng.Float64()
			s[i] = vocabulary[int(f*f*float64(len(vocabulary)))]
		}
		return strings.Join(s, " ")
	}
	var b bytes.Buffer
	b.WriteString(`"tools":[`)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"name":"%s_%s_%d","title":%q,"description":%q,"inputSchema":{"type":"object","properties":{`,
			word(rng), word(rng), i, words(3), words(30))
		for p := range 3 {
			if p > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, `%q:{"type":"string","description":%q,"minLength":%d}`, word(rng), words(12), rng.IntN(100))
		}
		b.WriteString(`},"required":["id"],"additionalProperties":false},"annotations":{"readOnlyHint":true}}`)
	}
	b.WriteString(`]}}`)
	return b.Bytes()
}

func word(rng *rand.Rand) string {
	b := make([]byte, 3+rng.IntN(7))
	for i := range b {
		b[i] = 'a' + byte(rng.IntN(26))
	}
	return string(b)
}

// randomBody returns n bytes that no encoder makes smaller.
func randomBody(n int) []byte {
	rng := rand.New(rand.NewPCG(11, uint64(n)))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}
