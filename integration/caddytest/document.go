package caddytest

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"
)

// ReadPage returns the text of a page.
func ReadPage(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// CodeBlock is a block of code in a document.
type CodeBlock struct {
	File     string
	line     int
	Language string // of the fence; "" if the block is indented
	Text     string
}

// String says where the block is.
func (b CodeBlock) String() string { return fmt.Sprintf("%s:%d", b.File, b.line) }

// CodeBlocks returns all blocks of code in a document: those between fences and
// those that are indented with a tab.
func CodeBlocks(t *testing.T, file string) []CodeBlock {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var blocks []CodeBlock
	var fenced, indented *CodeBlock
	line := 0
	for s := bufio.NewScanner(f); s.Scan(); {
		line++
		text := s.Text()
		switch {
		case fenced != nil && text == "```":
			blocks, fenced = append(blocks, *fenced), nil
		case fenced != nil:
			fenced.Text += text + "\n"
		case strings.HasPrefix(text, "```"):
			fenced = &CodeBlock{File: file, line: line, Language: strings.TrimPrefix(text, "```")}
		case strings.HasPrefix(text, "\t"):
			if indented == nil {
				indented = &CodeBlock{File: file, line: line}
			}
			indented.Text += strings.TrimPrefix(text, "\t") + "\n"
		case text == "" && indented != nil:
			indented.Text += "\n"
		case indented != nil:
			blocks, indented = append(blocks, *indented), nil
		}
	}
	if indented != nil {
		blocks = append(blocks, *indented)
	}
	if fenced != nil {
		t.Fatalf("%s: a block has no end", fenced)
	}
	return blocks
}
