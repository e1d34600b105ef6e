package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
)

// tool is an item of a tools list.
type tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"inputSchema"`
}

// makeTools returns n tools such as servers have: a sentence or two for each
// and up to nine parameters, about 800 bytes of JSON on the average. The same n
// and seed give the same tools.
func makeTools(n int, seed uint64) []tool {
	w := newWriter(seed)
	tools := make([]tool, n)
	for i := range tools {
		tools[i] = tool{
			Name:        fmt.Sprintf("%s_%s_%d", w.word(), w.word(), i),
			Description: w.sentence(14) + w.sentence(14+i%12),
			InputSchema: w.schema(i % 10),
		}
	}
	return tools
}

// toolList returns the members of a list's result that hold the tools.
func toolList(tools []tool) []byte {
	encoded, err := json.Marshal(map[string]any{"tools": tools})
	if err != nil {
		panic(err) // tools always marshal
	}
	return encoded[1 : len(encoded)-1]
}

// writer writes text that compresses about as well as people's: it has words
// that are common and words that are rare, and turns of phrase.
type writer struct {
	random  *rand.Rand
	words   []string
	phrases []string
}

const (
	vocabulary = 1000
	phrases    = 100
	// phraseWords is how many words a phrase has.
	phraseWords = 4
)

func newWriter(seed uint64) *writer {
	w := &writer{random: rand.New(rand.NewPCG(seed, 1))}
	consonants, vowels := "bcdfghlmnprstv", "aeiou"
	for range vocabulary {
		var word strings.Builder
		for range 1 + w.random.IntN(4) {
			word.WriteByte(consonants[w.random.IntN(len(consonants))])
			word.WriteByte(vowels[w.random.IntN(len(vowels))])
		}
		w.words = append(w.words, word.String())
	}
	for range phrases {
		words := make([]string, phraseWords)
		for i := range words {
			words[i] = w.word()
		}
		w.phrases = append(w.phrases, strings.Join(words, " "))
	}
	return w
}

// word returns a word. As in real text, some are common and most are rare.
func (w *writer) word() string {
	chance := w.random.Float64()
	return w.words[int(chance*chance*float64(len(w.words)))]
}

// sentence returns a sentence of that many words, and a few more if it ends with
// a phrase.
func (w *writer) sentence(words int) string {
	var text []string
	for n := 0; n < words; {
		if w.random.IntN(8) == 0 {
			text = append(text, w.phrases[w.random.IntN(len(w.phrases))])
			n += phraseWords
			continue
		}
		text = append(text, w.word())
		n++
	}
	return strings.Join(text, " ") + ". "
}

func (w *writer) schema(parameters int) json.RawMessage {
	types := [...]string{"string", "integer", "boolean", "string"}
	properties := make(map[string]any, parameters)
	required := []string{}
	for i := range parameters {
		name := w.word() + "_" + w.word()
		if i%3 == 0 {
			required = append(required, name)
		}
		properties[name] = map[string]any{
			"type": types[w.random.IntN(len(types))], "description": w.sentence(3 + w.random.IntN(9)),
		}
	}
	schema, err := json.Marshal(map[string]any{"type": "object", "properties": properties, "required": required})
	if err != nil {
		panic(err) // maps of strings always marshal
	}
	return schema
}
