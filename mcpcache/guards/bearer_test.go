package guards

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

const planted = "s3cr3t-planted-value"

// parse unmarshals a guard from its Caddyfile tokens.
func parse[T any, P interface {
	*T
	caddyfile.Unmarshaler
}](input string) (P, error) {
	guard := P(new(T))
	return guard, guard.UnmarshalCaddyfile(caddyfile.NewTestDispenser(input))
}

// provision provisions a guard as Caddy does, and cleans up after the test.
func provision(t *testing.T, guard any) error {
	t.Helper()
	ctx, cancel := caddy.NewContext(caddy.Context{Context: context.Background()})
	t.Cleanup(cancel)
	if c, ok := guard.(caddy.CleanerUpper); ok {
		t.Cleanup(func() {
			if err := c.Cleanup(); err != nil {
				t.Error("cleaning up:", err)
			}
		})
	}
	if err := guard.(caddy.Provisioner).Provision(ctx); err != nil {
		return err
	}
	if v, ok := guard.(caddy.Validator); ok {
		return v.Validate()
	}
	return nil
}

// mustProvision parses and provisions a guard.
func mustProvision[T any, P interface {
	*T
	caddyfile.Unmarshaler
}](t *testing.T, input string) P {
	t.Helper()
	guard, err := parse[T, P](input)
	if err != nil {
		t.Fatal(err)
	}
	if err := provision(t, guard); err != nil {
		t.Fatal(err)
	}
	return guard
}

func newRequest(t *testing.T) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://mcp.example.com/mcp", nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// present returns the value of a header that a guard sets.
func present(t *testing.T, guard Guard, header string) (string, error) {
	t.Helper()
	r := newRequest(t)
	err := guard.Authorize(t.Context(), r)
	return r.Header.Get(header), err
}

func wantHeader(t *testing.T, guard Guard, header, want string) {
	t.Helper()
	if got, err := present(t, guard, header); err != nil || got != want {
		t.Fatalf("%s is %q, %v; want %q", header, got, err, want)
	}
}

func TestBearerCaddyfile(t *testing.T) {
	for input, want := range map[string]string{
		`bearer abc`:              `{"token":"abc"}`,
		`bearer {env.T}`:          `{"token":"{env.T}"}`,
		"bearer {\n token abc\n}": `{"token":"abc"}`,
		"bearer abc {\n header X-Key\n prefix off\n}":           `{"token":"abc","header":"X-Key","prefix":""}`,
		"bearer {\n file /run/t\n prefix \"\"\n}":               `{"file":"/run/t","prefix":""}`,
		"bearer {\n file /run/t\n prefix Token\n header X-T\n}": `{"file":"/run/t","header":"X-T","prefix":"Token"}`,
	} {
		guard, err := parse[Bearer](input)
		if err != nil {
			t.Errorf("%q: %v", input, err)
			continue
		}
		if got, _ := json.Marshal(guard); string(got) != want {
			t.Errorf("%q gives %s, want %s", input, got, want)
		}
	}
}

func TestBearerCaddyfileMistakes(t *testing.T) {
	for input, want := range map[string]string{
		`bearer`:                                              "one of token and file is required",
		`bearer ""`:                                           "must not be empty",
		`bearer a b`:                                          "wrong argument count",
		"bearer {\n}":                                         "one of token and file is required",
		"bearer a {\n token b\n}":                             "token already specified",
		"bearer a {\n file /b\n}":                             "cannot be used together",
		"bearer {\n file /a\n file /b\n}":                     "file already specified",
		"bearer {\n file /a /b\n}":                            "wrong argument count",
		"bearer {\n file\n}":                                  "wrong argument count",
		"bearer {\n file \"\"\n}":                             "file must not be empty",
		"bearer a {\n prefix\n}":                              "wrong argument count",
		"bearer a {\n prefix A\n prefix off\n}":               "prefix already specified",
		"bearer a {\n prefix \"two words\"\n}":                "not one word",
		"bearer a {\n header \"X Key\"\n}":                    "not a header name",
		"bearer a {\n header host\n}":                         "cannot carry a credential",
		"bearer a {\n heade X\n}":                             `unrecognized subdirective "heade"`,
		"bearer a {\n header X\n header Y\n}":                 "header already specified",
		"bearer " + planted + " {\n token " + planted + "\n}": "token already specified",
	} {
		_, err := parse[Bearer](input)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", input, err, want)
		}
		if err != nil && strings.Contains(err.Error(), planted) {
			t.Errorf("%q: the error shows the token: %v", input, err)
		}
	}
}

func TestBearerProvisionMistakes(t *testing.T) {
	t.Setenv("GUARD_EMPTY", "")
	t.Setenv("GUARD_LINES", planted+"\n"+planted)
	off := ""
	for name, test := range map[string]struct {
		guard Bearer
		want  string
	}{
		"nothing":             {Bearer{}, "one of token and file is required"},
		"both":                {Bearer{Token: planted, File: "/a"}, "cannot be used together"},
		"empty placeholder":   {Bearer{Token: "{env.GUARD_EMPTY}"}, "token: placeholder {env.GUARD_EMPTY} is empty"},
		"unknown placeholder": {Bearer{Token: "x{" + planted + "}"}, "token: a placeholder"},
		"missing placeholder": {Bearer{Token: "{file./nowhere/token}"}, "token: placeholder {file./nowhere/token} is empty"},
		"blank":               {Bearer{Token: " \n"}, "token: must not be empty"},
		"two lines":           {Bearer{Token: "{env.GUARD_LINES}"}, "token: token holds characters"},
		"not ASCII":           {Bearer{Token: planted + "é"}, "token: token holds characters"},
		"prefix in token":     {Bearer{Token: "bearer " + planted}, "token: token already starts with the prefix"},
		"relative path":       {Bearer{File: "token"}, "file: path must be absolute"},
		"unknown path":        {Bearer{File: "/run/{nope}/token"}, "file: a placeholder"},
		"bad header":          {Bearer{Token: planted, Header: "A\nB"}, "header:"},
		"bad prefix":          {Bearer{Token: planted, Prefix: new("A B")}, "prefix:"},
		"reserved header":     {Bearer{Token: planted, Header: "mcp-session-id", Prefix: &off}, "header: Mcp-Session-Id"},
	} {
		t.Run(name, func(t *testing.T) {
			err := provision(t, &test.guard)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
			if strings.Contains(fmt.Sprint(err), planted) {
				t.Errorf("the error shows the token: %v", err)
			}
		})
	}
}

func TestBearerAuthorize(t *testing.T) {
	t.Setenv("GUARD_TOKEN", "  from-env\n")
	path := filepath.Join(t.TempDir(), "token")
	writeFile(t, path, "from-file\n")
	for input, want := range map[string][2]string{
		`bearer abc`:                                      {"Authorization", "Bearer abc"},
		`bearer {env.GUARD_TOKEN}`:                        {"Authorization", "Bearer from-env"},
		`bearer {file.` + path + `}`:                      {"Authorization", "Bearer from-file"},
		"bearer abc {\n header x-api-key\n prefix off\n}": {"X-Api-Key", "abc"},
		"bearer \"a b\" {\n prefix Token\n}":              {"Authorization", "Token a b"},
		"bearer {\n file " + path + "\n header X-T\n}":    {"X-T", "Bearer from-file"},
		"bearer \"Bearer abc\" {\n prefix off\n}":         {"Authorization", "Bearer abc"},
	} {
		guard := mustProvision[Bearer](t, input)
		wantHeader(t, guard, want[0], want[1])
		r := newRequest(t)
		r.Header[want[0]] = []string{"Bearer client", "Bearer other"}
		if err := guard.Authorize(t.Context(), r); err != nil || len(r.Header[want[0]]) != 1 {
			t.Errorf("%q: header is %q, %v: want ours alone", input, r.Header[want[0]], err)
		}
		if got := guard.Credential(r); got != want[1] {
			t.Errorf("%q: Credential is %q, want %q", input, got, want[1])
		}
	}
}

func TestBearerFileMayComeLater(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	guard := mustProvision[Bearer](t, "bearer {\n file "+path+"\n}")
	if _, err := present(t, guard, "Authorization"); !errors.Is(err, ErrUnauthorized) || !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("missing file: %v", err)
	}
	writeFile(t, path, "late\n")
	guard.file.elapse()
	wantHeader(t, guard, "Authorization", "Bearer late")

	writeFile(t, path, "Bearer "+planted)
	guard.file.elapse()
	wantHeader(t, guard, "Authorization", "Bearer late")
}

func TestBearerFileErrorsHideTheToken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	for _, content := range []string{planted + "\n" + planted, "bearer " + planted, planted + "\x00", "\n"} {
		guard := mustProvision[Bearer](t, "bearer {\n file "+path+"\n}")
		writeFile(t, path, content)
		_, err := present(t, guard, "Authorization")
		if !errors.Is(err, ErrUnauthorized) || strings.Contains(err.Error(), planted) {
			t.Errorf("%q: %v", content, err)
		}
	}
}

func TestBearerRenew(t *testing.T) {
	literal := mustProvision[Bearer](t, "bearer abc")
	if err := literal.Renew(t.Context(), "Bearer abc", Challenge{Status: 401}); !errors.Is(err, ErrUnauthorized) {
		t.Errorf("literal: %v", err)
	}

	path := filepath.Join(t.TempDir(), "token")
	guard := mustProvision[Bearer](t, "bearer {\n file "+path+"\n}")
	if err := guard.Renew(t.Context(), "", Challenge{}); !errors.Is(err, ErrUnauthorized) {
		t.Errorf("missing file: %v", err)
	}
	writeFile(t, path, "one")
	guard.file.elapse()
	wantHeader(t, guard, "Authorization", "Bearer one")
	if err := guard.Renew(t.Context(), "Bearer one", Challenge{}); !errors.Is(err, ErrUnauthorized) {
		t.Errorf("unchanged file: %v", err)
	}
	writeFile(t, path, "two")
	if err := guard.Renew(t.Context(), "Bearer one", Challenge{}); err != nil {
		t.Errorf("rotated file: %v", err)
	}
	wantHeader(t, guard, "Authorization", "Bearer two")
	if err := guard.Renew(t.Context(), "Bearer one", Challenge{}); err != nil {
		t.Errorf("late renewal: %v", err)
	}
}

func TestBearerIdentity(t *testing.T) {
	t.Setenv("GUARD_TOKEN", "abc")
	path := filepath.Join(t.TempDir(), "token")
	same := [][]string{
		{"bearer abc", "bearer {env.GUARD_TOKEN}", "bearer abc {\n header authorization\n prefix Bearer\n}"},
		{"bearer xyz"},
		{"bearer abc {\n header X-Key\n}"},
		{"bearer abc {\n prefix off\n}"},
		{"bearer {\n file " + path + "\n}", "bearer {\n file " + filepath.Dir(path) + "/./token\n}"},
		{"bearer {\n file " + path + "2\n}"},
	}
	seen := make(map[string]int)
	for i, inputs := range same {
		for _, input := range inputs {
			id := mustProvision[Bearer](t, input).Identity()
			if first, ok := seen[id]; ok && first != i {
				t.Errorf("%q has the identity of another credential", input)
			}
			seen[id] = i
		}
	}
	if len(seen) != len(same) {
		t.Errorf("%d identities for %d credentials", len(seen), len(same))
	}
	// Identities are keys in shared stores: they must not change by accident.
	if got, want := mustProvision[Bearer](t, "bearer abc").Identity(), "bearer-6080df6ee2f003311c524483b66d2f76"; got != want {
		t.Errorf("identity of a known configuration is %s, want %s", got, want)
	}

	before := mustProvision[Bearer](t, "bearer {\n file "+path+"\n}").Identity()
	writeFile(t, path, "rotated")
	if after := mustProvision[Bearer](t, "bearer {\n file "+path+"\n}").Identity(); after != before {
		t.Error("a rotated file changes the identity")
	}
}

func TestBearerPrintsNoSecret(t *testing.T) {
	guard := mustProvision[Bearer](t, "bearer "+planted)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		for _, value := range []any{guard, *guard} {
			if got := fmt.Sprintf(verb, value); strings.Contains(got, planted) {
				t.Errorf("%s of %T shows the token: %s", verb, value, got)
			}
		}
	}
	if strings.Contains(guard.Identity(), planted) {
		t.Error("the identity shows the token")
	}
}

func TestBearerIsSafeForConcurrentUse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	writeFile(t, path, "one")
	guard := mustProvision[Bearer](t, "bearer {\n file "+path+"\n}")
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 50 {
				r := newRequest(t)
				if err := guard.Authorize(t.Context(), r); err != nil {
					t.Error(err)
				}
				_ = guard.Renew(t.Context(), guard.Credential(r), Challenge{})
			}
		})
	}
	group.Wait()
}
