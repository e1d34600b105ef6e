package client

import (
	"errors"
	"net/http"
	"strings"
	"testing"
)

// TestWhereARedirectLeads is in the error, without what may be secret.
func TestWhereARedirectLeads(t *testing.T) {
	const token = "s3cr3t-0123456789abc"
	long := strings.Repeat("x", maxURL)
	for name, c := range map[string]struct {
		status         int
		location, want string
	}{
		"elsewhere":        {301, "https://other.example/mcp", " and leads to https://other.example/mcp: name that URL"},
		"for now":          {307, "https://other.example/mcp", " and leads to https://other.example/mcp: name that URL"},
		"for people":       {302, "https://login.example/", " and leads to https://login.example/"},
		"of the path":      {308, "/v2/mcp", " and leads to http://upstream.test/v2/mcp: name that URL"},
		"query and more":   {301, "https://a:b@other.example/?key=c#d", " and leads to https://other.example/: name that URL"},
		"an empty query":   {301, "https://other.example/?", " and leads to https://other.example/: name that URL"},
		"long":             {301, "https://other.example/" + long, " and leads to https://other.example/…: name that URL"},
		"long host":        {301, "https://" + long + "/", ""},
		"odd host":         {301, "https://\u202eother.example/", ""},
		"odd path":         {301, "https://other.example/\u202e", " and leads to https://other.example/%E2%80%AE: name that URL"},
		"control":          {301, "https://other.example/\x01", ""},
		"a credential":     {301, "https://other.example/" + token + "/mcp", " and leads to https://other.example/[hidden]/mcp: name that URL"},
		"an escaped one":   {301, "https://other.example/%733cr3t-0123456789abc/", " and leads to https://other.example/[hidden]/: name that URL"},
		"a credential cut": {301, "https://other.example/" + long[:maxURL-40] + token, " and leads to https://other.example/…: name that URL"},
		"no URL":           {301, "http://%", ""},
		"no host":          {301, "mailto:someone", ""},
		"nowhere":          {301, "", ""},
		"no redirect":      {418, "https://other.example/", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(modern)
			s.OnAll(func(w http.ResponseWriter, _ *http.Request, _ call) error {
				w.Header()["Location"] = []string{c.location}
				w.WriteHeader(c.status)
				return nil
			})
			for _, policy := range []Policy{
				{Sent: http.Header{"Authorization": {"Bearer " + token}}},
				{Guard: &secretGuard{header: "Authorization", value: "Bearer " + token}},
			} {
				run(t, modern, s, func(w *world) {
					w.policy.Sent, w.policy.Guard = policy.Sent, policy.Guard
					_, err := w.try()
					status, _ := errors.AsType[*StatusError](err)
					if _, got, _ := strings.Cut(err.Error(), "upstream answered HTTP "); got[3:] != c.want || status.Advice() != c.want {
						t.Errorf("the error is %q, it leads %q, want %q", err, status.Advice(), c.want)
					}
				})
			}
		})
	}
}

// TestWhatToDoAboutARefusal is in the error, and depends on whether we have a credential.
func TestWhatToDoAboutARefusal(t *testing.T) {
	credential := Policy{Sent: http.Header{"Authorization": {"Bearer s3cr3t-0123456789abc"}}}
	for name, c := range map[string]struct {
		status int
		policy Policy
		want   string
	}{
		"no credential":          {401, Policy{}, "give the feed a credential, with guard or header_up"},
		"another credential":     {401, credential, "the feed's credential is not accepted"},
		"not let in":             {403, Policy{}, "or another name, with client_name or header_up User-Agent"},
		"not let in with it":     {403, credential, "not let in with its credential; if names count"},
		"another Host":           {421, Policy{}, "name it with header_up Host, or with the option host"},
		"nothing there":          {404, Policy{}, " at /mcp"},
		"what nobody can advise": {418, Policy{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(modern)
			s.OnAll(func(w http.ResponseWriter, _ *http.Request, _ call) error {
				w.WriteHeader(c.status)
				return nil
			})
			run(t, modern, s, func(w *world) {
				w.policy.Sent = c.policy.Sent
				_, err := w.try()
				status, ok := errors.AsType[*StatusError](err)
				if !ok || !strings.HasSuffix(err.Error(), status.Advice()) || !strings.Contains(status.Advice(), c.want) || (c.want == "") != (status.Advice() == "") {
					t.Errorf("the error is %q, want one with %q", err, c.want)
				}
			})
		})
	}
}
