package probe

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// wantWords fails unless a report says so to people, however its lines are broken.
func wantWords(t *testing.T, r *Report, says string) {
	t.Helper()
	if !strings.Contains(strings.Join(strings.Fields(r.Text()), " "), says) {
		t.Errorf("it does not say %q:\n%s", says, r.Text())
	}
}

// TestOnlyEventStreamsAreStreams looks at servers that answer a GET of the legacy era with
// what is no stream.
func TestOnlyEventStreamsAreStreams(t *testing.T) {
	for media, says := range map[string]string{
		"application/json":         "application/json",
		"text/html; charset=utf-8": "text/html",
		"":                         "no content type",
	} {
		t.Run(says, func(t *testing.T) {
			s := newScripted()
			r := run(t, options(t, serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodGet {
					s.ServeHTTP(w, r)
					return
				}
				w.Header()["Content-Type"] = []string{media}
				_, _ = io.WriteString(w, "{}")
			}))))
			if e := r.Eras[1]; e.Stream != StreamOther || e.StreamType != says || r.Eras[0].Stream != StreamOpen {
				t.Errorf("the streams are %q (%s) and %q", e.Stream, e.StreamType, r.Eras[0].Stream)
			}
			wantWords(t, r, "- It announces changes of tools, prompts, resources, but answers a GET with "+says+" instead of text/event-stream (legacy): "+
				"there is no stream of notices. A change is seen when the list's time is over. Have the server answer with a stream, or with 405.")
		})
	}
}
