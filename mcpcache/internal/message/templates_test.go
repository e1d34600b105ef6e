package message

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
)

func (m *Templates) remembers(body []byte) bool { return m.Recall(body, new(Request)) }

// read recalls or decodes a body.
func (m *Templates) read(body []byte, req *Request) error {
	if m.Recall(body, req) {
		return nil
	}
	return m.Decode(body, req)
}

// wantSame checks that a memo decodes a body as Decode does.
func wantSame(t *testing.T, m *Templates, body []byte) {
	t.Helper()
	var got, want Request
	err, wantErr := m.read(body, &got), Decode(body, &want)
	if !reflect.DeepEqual(got, want) || (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() {
		t.Fatalf("%s gave %+v, error %v, want %+v, error %v", body, got, err, want, wantErr)
	}
	if got.ID != nil && cap(got.ID) != len(got.ID) {
		t.Fatalf("%s: appending to the id would overwrite what follows", body)
	}
}

func TestMemo(t *testing.T) {
	const idHere = "ID"
	for name, text := range map[string]string{
		"legacy":         `{"jsonrpc":"2.0","id":ID,"method":"tools/list"}`,
		"params":         `{"method":"tools/list","params":{},"jsonrpc":"2.0","id":ID}`,
		"modern":         strings.Replace(modernList, `"req-17"`, idHere, 1),
		"white space":    "{ \"id\" :\tID \n, \"jsonrpc\":\"2.0\",\"method\":\"ping\" }\n",
		"escaped method": `{"jsonrpc":"2.0","id":ID,"method":"tools\/list"}`,
		"same number":    `{"jsonrpc":"2.0","params":{"_meta":{"progressToken":7}},"id":ID,"method":"tools/list"}`,
	} {
		t.Run(name, func(t *testing.T) {
			var m Templates
			with := func(id string) []byte { return []byte(strings.Replace(text, idHere, id, 1)) }
			wantSame(t, &m, with("7"))
			for _, id := range []string{"0", "8", maxSafe, `""`, `"a-B_9"`} {
				if !m.remembers(with(id)) {
					t.Errorf("with the id %s it has to be decoded", id)
				}
				wantSame(t, &m, with(id))
			}
			// What is not plain may be another id or none at all.
			for _, id := range []string{
				"", "00", "01", "-1", "1.5", "9007199254740992", "12345678901234567890", "1e3", "1 ", " 1", "null", "true", "[]", "{}", `"`, `"a`, `a"`, `"a"b"`, `"\""`, `"é"`,
				`1,"method":"prompts/list"`, `"x","method":"y"`, `1,"id":2`, `"` + strings.Repeat("a", maxPlainID-1) + `"`,
			} {
				if m.remembers(with(id)) {
					t.Errorf("%s is taken for an id", id)
				}
				wantSame(t, &m, with(id))
			}
			if longest := `"` + strings.Repeat("a", maxPlainID-2) + `"`; !m.remembers(with(longest)) {
				t.Errorf("an id of %d bytes is not read", len(longest))
			}
		})
	}
}

// TestMemoRemembersWhatRepeats shows what is not worth a place.
func TestMemoRemembersWhatRepeats(t *testing.T) {
	for _, body := range []string{
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","id":1,"result":{}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/list","more":1}`,
		`{"jsonrpc":"2.0","id":9007199254740992,"method":"tools/list"}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"progressToken":-9007199254740992}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"a"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"a"}}`,
		listOfLength(maxTemplate + 1),
		`[]`, `{`,
	} {
		var m Templates
		wantSame(t, &m, []byte(body))
		if m.remembers([]byte(body)) {
			t.Errorf("%.80s is remembered", body)
		}
	}
	var m Templates
	longest := []byte(listOfLength(maxTemplate))
	if wantSame(t, &m, longest); !m.remembers(longest) {
		t.Errorf("a request of %d bytes is not remembered", maxTemplate)
	}
}

// listOfLength is a list request of that many bytes.
func listOfLength(n int) string {
	const before, after = `{"jsonrpc":"2.0","id":1,"method":"tools/list"`, `}`
	return before + strings.Repeat(" ", n-len(before)-len(after)) + after
}

// TestMemoIsBounded has a client invent forms: the others keep most of their
// places, and a form that comes often enough finds one.
func TestMemoIsBounded(t *testing.T) {
	var m Templates
	invented := func(i int) []byte { return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":"invented/%d"}`, i) }
	for i := range maxTemplates {
		wantSame(t, &m, invented(i))
	}
	for i := range maxTemplates {
		if !m.remembers(invented(i)) {
			t.Errorf("form %d of %d is not remembered", i, maxTemplates)
		}
	}
	for i := range learnEach {
		wantSame(t, &m, invented(maxTemplates+i))
	}
	kept := 0
	for i := range maxTemplates {
		if m.remembers(invented(i)) {
			kept++
		}
	}
	if kept != maxTemplates-1 {
		t.Errorf("%d new forms have left %d of %d", learnEach, kept, maxTemplates)
	}
	usual := []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	for range learnEach {
		wantSame(t, &m, usual)
	}
	if !m.remembers(usual) {
		t.Errorf("a form that came %d times is not remembered", learnEach)
	}
}

// TestMemoKeepsNothingOfTheBody changes a body after it was decoded, as a
// buffer that is used again does.
func TestMemoKeepsNothingOfTheBody(t *testing.T) {
	var m Templates
	body := []byte(legacyWithID("1"))
	if err := m.Decode(body, new(Request)); err != nil {
		t.Fatal(err)
	}
	for i := range body {
		body[i] = 'x'
	}
	wantSame(t, &m, []byte(legacyWithID("2")))
	if err := m.read(body, new(Request)); !errors.Is(err, ErrInvalid) {
		t.Errorf("got %v", err)
	}
}

func legacyWithID(id string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/list"}`
}

func TestMemoIsConcurrent(t *testing.T) {
	var m Templates
	var running sync.WaitGroup
	for worker := range 8 {
		running.Go(func() {
			for i := range 500 {
				body := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"%d"}`, i, (worker+i)%(2*maxTemplates))
				var got, want Request
				if m.read(body, &got) != nil || Decode(body, &want) != nil || !reflect.DeepEqual(got, want) {
					t.Errorf("%s gave %+v, want %+v", body, got, want)
				}
			}
		})
	}
	running.Wait()
}

func TestMemoAllocatesNothing(t *testing.T) {
	var m Templates
	var req Request
	body := []byte(modernList)
	if n := testing.AllocsPerRun(100, func() {
		if err := m.read(body, &req); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzMemo puts anything in the place of an id.
func FuzzMemo(f *testing.F) {
	for _, seed := range []string{`1`, `"a"`, `1,"method":"x"`, `"a","id":"b"`, `01`, `{}`, ``, `"\u0031"`, `1}`, `"a" `} {
		f.Add([]byte(legacyList), []byte(seed))
		f.Add([]byte(modernList), []byte(seed))
		f.Add([]byte(legacyWithID("1")), []byte(seed))
	}
	f.Fuzz(func(t *testing.T, body, id []byte) {
		var m Templates
		wantSame(t, &m, body)
		wantSame(t, &m, body)
		var req Request
		end, err := decode(body, &req)
		if err != nil || req.ID == nil {
			return
		}
		start := end - len(req.ID)
		if !bytes.Equal(body[start:end], req.ID) {
			t.Fatalf("%s has its id %s elsewhere than %d", body, req.ID, start)
		}
		wantSame(t, &m, slices.Concat(body[:start], id, body[end:]))
	})
}
