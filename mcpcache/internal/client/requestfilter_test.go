package client

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// read returns what the transport is given of a stream, and what was asked on
// it, when the stream comes in chunks of that size.
func read(t testing.TB, stream string, chunk int) (given string, asked []string) {
	t.Helper()
	b := &filteredBody{
		ReadCloser: io.NopCloser(iotest.DataErrReader(strings.NewReader(stream))),
		onRequest:  func(id []byte, method string) { asked = append(asked, string(id)+" "+method) },
	}
	var all bytes.Buffer
	p := make([]byte, chunk)
	for {
		n, err := b.Read(p)
		all.Write(p[:n])
		if errors.Is(err, io.EOF) {
			return all.String(), asked
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestRequestsAreTakenOutOfStreams(t *testing.T) {
	const notice, result = "data: {\"method\":\"n\"}\n\n", "data: {\"id\":1,\"result\":{}}\n\n"
	large := func(kind string, size int) string {
		frame := "data: {" + kind + ",\"params\":\"%s\"}\n\n"
		return fmt.Sprintf(frame, strings.Repeat("x", size-len(fmt.Sprintf(frame, ""))))
	}
	for name, tt := range map[string]struct {
		stream, given string
		asked         []string
	}{
		"nothing":                   {"", "", nil},
		"result":                    {result, result, nil},
		"notice, result":            {notice + result, notice + result, nil},
		"request, result":           {"data: {\"id\":7,\"method\":\"ping\"}\n\n" + result, "\n" + result, []string{"7 ping"}},
		"CRLF":                      {"data: {\"id\":\"7\",\"method\":\"ping\"}\r\n\r\n" + result, "\n" + result, []string{`"7" ping`}},
		"two lines":                 {"data: {\"id\":7,\ndata: \"method\":\"ping\"}\n\n", "\n", []string{"7 ping"}},
		"with an event ID":          {"id: 5\nretry: 10\nevent: message\ndata: {\"id\":7,\"method\":\"ping\"}\n\n", "id: 5\nretry: 10\n\n", []string{"7 ping"}},
		"escaped":                   {`data: {"id":7,"m\u0065thod":"ping"}` + "\n\n", "\n", []string{"7 ping"}},
		"id in capitals":            {"data: {\"ID\":7,\"method\":\"ping\"}\n\n", "\n", nil},
		"id that is an object":      {"data: {\"id\":{},\"method\":\"ping\"}\n\n", "\n", nil},
		"id that is null":           {"data: {\"id\":null,\"method\":\"n\"}\n\n", "data: {\"id\":null,\"method\":\"n\"}\n\n", nil},
		"method that is no string":  {"data: {\"id\":7,\"method\":8}\n\n", "\n", nil},
		"several results":           {result + notice + result + result, result + notice + "\n\n", nil},
		"comments and blank lines":  {": hello\n\n\n\r\n" + result, ": hello\n\n\n\r\n" + result, nil},
		"no JSON":                   {"data: hello\n\n" + result, "data: hello\n\n" + result, nil},
		"result that is not ended":  {result[:len(result)-2], result[:len(result)-2], nil},
		"request that is not ended": {"data: {\"id\":7,\"method\":\"ping\"}", "data: {\"id\":7,\"method\":\"ping\"}", nil},
		"largest request":           {large(`"id":7,"method":"ping"`, maxFiltered) + result, "\n" + result, []string{"7 ping"}},
		"too large a request": {
			large(`"id":7,"method":"ping"`, maxFiltered+1) + result, large(`"id":7,"method":"ping"`, maxFiltered+1) + result, nil,
		},
		"large result, request": {
			large(`"id":1,"result":{}`, 3*maxFiltered) + "data: {\"id\":7,\"method\":\"ping\"}\n\n",
			large(`"id":1,"result":{}`, 3*maxFiltered) + "\n", []string{"7 ping"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, chunk := range []int{1, 7, 4096, 1 << 20} {
				given, asked := read(t, tt.stream, chunk)
				if given != tt.given {
					t.Errorf("in chunks of %d, the transport is given %.200q, want %.200q", chunk, given, tt.given)
				}
				if fmt.Sprint(asked) != fmt.Sprint(tt.asked) {
					t.Errorf("in chunks of %d, we are asked %q, want %q", chunk, asked, tt.asked)
				}
			}
		})
	}
}

func FuzzRequestFilter(f *testing.F) {
	for _, seed := range []string{
		"data: {\"id\":7,\"method\":\"ping\"}\n\ndata: {\"id\":1,\"result\":{}}\n\n", "id: 5\ndata: {\"ID\":7,\r\ndata:\"method\":1}\r\n\r\n",
		"\n\r\r\n:\ndata: {\"method\":\"n\"}\n\n", "data: {\"id\":1,\"result\":{}}\n\ndata: {\"id\":2,\"result\":{}}\n\ndata:",
	} {
		f.Add(seed, 3)
	}
	f.Fuzz(func(t *testing.T, stream string, chunk int) {
		given, asked := read(t, stream, 1<<16)
		again, askedAgain := read(t, stream, 1+abs(chunk)%64)
		if again != given || fmt.Sprint(asked) != fmt.Sprint(askedAgain) {
			t.Errorf("chunks matter: %q, %q; %q, %q", given, again, asked, askedAgain)
		}
		responses := 0
		for _, event := range events(given) {
			var m map[string]json.RawMessage
			if len(event) > maxFiltered || json.Unmarshal(dataOf([]byte(event)), &m) != nil || !hasID(m) {
				continue
			}
			if m["method"] != nil {
				t.Errorf("the transport is given %q", event)
			}
			responses++
		}
		if responses > 1 {
			t.Errorf("the transport is given %d responses", responses)
		}
		if len(asked) == 0 && responses == 0 && given != stream && strings.Count(stream, "method") == 0 {
			t.Errorf("%q became %q", stream, given)
		}
	})
}

// events splits a stream as the transport does; what is not ended is left out.
func events(stream string) []string {
	var all []string
	var event strings.Builder
	for line := range strings.Lines(stream) {
		event.WriteString(line)
		if strings.HasSuffix(line, "\n") && strings.TrimRight(line, "\r\n") == "" {
			all = append(all, event.String())
			event.Reset()
		}
	}
	return all
}

func abs(n int) int { return max(n, -max(n, -1<<62)) }
