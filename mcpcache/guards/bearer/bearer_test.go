package bearer

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-mcp/mcp-cache/mcpcache/guards"
	"github.com/caddy-mcp/mcp-cache/mcpcache/guards/internal/guardtest"
)

func TestBearerCaddyfile(t *testing.T) {
	for input, want := range map[string]string{
		`bearer abc`:              `{"token":"abc"}`,
		`bearer {env.T}`:          `{"token":"{env.T}"}`,
		"bearer {\n token abc\n}": `{"token":"abc"}`,
		"bearer abc {\n header X-Key\n prefix off\n}":           `{"token":"abc","header":"X-Key","prefix":""}`,
		"bearer {\n file /run/t\n prefix \"\"\n}":               `{"file":"/run/t","prefix":""}`,
		"bearer {\n file /run/t\n prefix Token\n header X-T\n}": `{"file":"/run/t","header":"X-T","prefix":"Token"}`,
	} {
		guard, err := guardtest.Parse[Bearer](input)
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
		`bearer`:                                "one of token and file is required",
		`bearer ""`:                             "must not be empty",
		`bearer a b`:                            "takes one argument",
		"bearer {\n}":                           "one of token and file is required",
		"bearer a {\n token b\n}":               "token already specified",
		"bearer a {\n file /b\n}":               "cannot be used together",
		"bearer {\n file /a\n file /b\n}":       "file already specified",
		"bearer {\n file /a /b\n}":              "takes one argument",
		"bearer {\n file\n}":                    "takes one argument",
		"bearer {\n file \"\"\n}":               "file must not be empty",
		"bearer a {\n prefix\n}":                "takes one argument",
		"bearer a {\n prefix A\n prefix off\n}": "prefix already specified",
		"bearer a {\n prefix \"two words\"\n}":  "not one word",
		"bearer a {\n header \"X Key\"\n}":      "not a header name",
		"bearer a {\n header host\n}":           "cannot carry a credential",
		"bearer a {\n heade X\n}":               `unrecognized subdirective "heade" (did you mean header?); the options are file, header, prefix, token`,
		"bearer a {\n header X\n header Y\n}":   "header already specified",
		"bearer Bearer " + guardtest.Planted:    "takes one argument, not 2",
		"bearer " + guardtest.Planted + " {\n token " + guardtest.Planted + "\n}": "token already specified",
	} {
		_, err := guardtest.Parse[Bearer](input)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", input, err, want)
		}
		if err != nil && strings.Contains(err.Error(), guardtest.Planted) {
			t.Errorf("%q: the error shows the token: %v", input, err)
		}
	}
}

func TestBearerProvisionMistakes(t *testing.T) {
	t.Setenv("GUARD_EMPTY", "")
	t.Setenv("GUARD_LINES", guardtest.Planted+"\n"+guardtest.Planted)
	off := ""
	for name, test := range map[string]struct {
		guard Bearer
		want  string
	}{
		"nothing":             {Bearer{}, "one of token and file is required"},
		"both":                {Bearer{Token: guardtest.Planted, File: "/a"}, "cannot be used together"},
		"empty placeholder":   {Bearer{Token: "{env.GUARD_EMPTY}"}, "token: placeholder {env.GUARD_EMPTY} is empty"},
		"unknown placeholder": {Bearer{Token: "x{" + guardtest.Planted + "}"}, "token: a placeholder"},
		"missing placeholder": {Bearer{Token: "{file./nowhere/token}"}, "token: placeholder {file./nowhere/token} is empty"},
		"blank":               {Bearer{Token: " \n"}, "token: must not be empty"},
		"two lines":           {Bearer{Token: "{env.GUARD_LINES}"}, "token: token holds characters"},
		"not ASCII":           {Bearer{Token: guardtest.Planted + "é"}, "token: token holds characters"},
		"prefix in token":     {Bearer{Token: "bearer " + guardtest.Planted}, "token: token already starts with the prefix"},
		"relative path":       {Bearer{File: "token"}, "file: path must be absolute"},
		"unknown path":        {Bearer{File: "/run/{nope}/token"}, "file: a placeholder"},
		"bad header":          {Bearer{Token: guardtest.Planted, Header: "A\nB"}, "header:"},
		"bad prefix":          {Bearer{Token: guardtest.Planted, Prefix: new("A B")}, "prefix:"},
		"reserved header":     {Bearer{Token: guardtest.Planted, Header: "mcp-session-id", Prefix: &off}, "header: Mcp-Session-Id"},
	} {
		t.Run(name, func(t *testing.T) {
			err := guardtest.Provision(t, &test.guard)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
			if strings.Contains(fmt.Sprint(err), guardtest.Planted) {
				t.Errorf("the error shows the token: %v", err)
			}
		})
	}
}

func TestBearerAuthorize(t *testing.T) {
	t.Setenv("GUARD_TOKEN", "  from-env\n")
	path := filepath.Join(t.TempDir(), "token")
	guardtest.WriteFile(t, path, "from-file\n")
	for input, want := range map[string][2]string{
		`bearer abc`:                                      {"Authorization", "Bearer abc"},
		`bearer {env.GUARD_TOKEN}`:                        {"Authorization", "Bearer from-env"},
		`bearer {file.` + path + `}`:                      {"Authorization", "Bearer from-file"},
		"bearer abc {\n header x-api-key\n prefix off\n}": {"X-Api-Key", "abc"},
		"bearer \"a b\" {\n prefix Token\n}":              {"Authorization", "Token a b"},
		"bearer {\n file " + path + "\n header X-T\n}":    {"X-T", "Bearer from-file"},
		"bearer \"Bearer abc\" {\n prefix off\n}":         {"Authorization", "Bearer abc"},
	} {
		guard := guardtest.MustProvision[Bearer](t, input)
		guardtest.WantHeader(t, guard, want[0], want[1])
		r := guardtest.NewRequest(t)
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
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "token")
		guard := guardtest.MustProvision[Bearer](t, "bearer {\n file "+path+"\n}")
		if _, err := guardtest.Present(t, guard, "Authorization"); !errors.Is(err, guards.ErrUnauthorized) || !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("missing file: %v", err)
		}
		guardtest.WriteFile(t, path, "late\n")
		time.Sleep(time.Second) // until the file is looked at again
		guardtest.WantHeader(t, guard, "Authorization", "Bearer late")

		guardtest.WriteFile(t, path, "Bearer "+guardtest.Planted)
		time.Sleep(time.Second) // until the file is looked at again
		guardtest.WantHeader(t, guard, "Authorization", "Bearer late")
	})
}

func TestBearerFileErrorsHideTheToken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	for _, content := range []string{guardtest.Planted + "\n" + guardtest.Planted, "bearer " + guardtest.Planted, guardtest.Planted + "\x00", "\n"} {
		guard := guardtest.MustProvision[Bearer](t, "bearer {\n file "+path+"\n}")
		guardtest.WriteFile(t, path, content)
		_, err := guardtest.Present(t, guard, "Authorization")
		if !errors.Is(err, guards.ErrUnauthorized) || strings.Contains(err.Error(), guardtest.Planted) {
			t.Errorf("%q: %v", content, err)
		}
	}
}

func TestBearerRenew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		literal := guardtest.MustProvision[Bearer](t, "bearer abc")
		if err := literal.Renew(t.Context(), "Bearer abc", guards.Challenge{Status: 401}); !errors.Is(err, guards.ErrUnauthorized) {
			t.Errorf("literal: %v", err)
		}

		path := filepath.Join(t.TempDir(), "token")
		guard := guardtest.MustProvision[Bearer](t, "bearer {\n file "+path+"\n}")
		if err := guard.Renew(t.Context(), "", guards.Challenge{}); !errors.Is(err, guards.ErrUnauthorized) {
			t.Errorf("missing file: %v", err)
		}
		guardtest.WriteFile(t, path, "one")
		time.Sleep(time.Second) // until the file is looked at again
		guardtest.WantHeader(t, guard, "Authorization", "Bearer one")
		if err := guard.Renew(t.Context(), "Bearer one", guards.Challenge{}); !errors.Is(err, guards.ErrUnauthorized) {
			t.Errorf("unchanged file: %v", err)
		}
		guardtest.WriteFile(t, path, "two")
		if err := guard.Renew(t.Context(), "Bearer one", guards.Challenge{}); err != nil {
			t.Errorf("rotated file: %v", err)
		}
		guardtest.WantHeader(t, guard, "Authorization", "Bearer two")
		if err := guard.Renew(t.Context(), "Bearer one", guards.Challenge{}); err != nil {
			t.Errorf("late renewal: %v", err)
		}
	})
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
			id := guardtest.MustProvision[Bearer](t, input).Identity()
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
	if got, want := guardtest.MustProvision[Bearer](t, "bearer abc").Identity(), "bearer-6080df6ee2f003311c524483b66d2f76"; got != want {
		t.Errorf("identity of a known configuration is %s, want %s", got, want)
	}

	before := guardtest.MustProvision[Bearer](t, "bearer {\n file "+path+"\n}").Identity()
	guardtest.WriteFile(t, path, "rotated")
	if after := guardtest.MustProvision[Bearer](t, "bearer {\n file "+path+"\n}").Identity(); after != before {
		t.Error("a rotated file changes the identity")
	}
}

func TestBearerPrintsNoSecret(t *testing.T) {
	guard := guardtest.MustProvision[Bearer](t, "bearer "+guardtest.Planted)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		for _, value := range []any{guard, *guard} {
			if got := fmt.Sprintf(verb, value); strings.Contains(got, guardtest.Planted) {
				t.Errorf("%s of %T shows the token: %s", verb, value, got)
			}
		}
	}
	if strings.Contains(guard.Identity(), guardtest.Planted) {
		t.Error("the identity shows the token")
	}
}

func TestBearerIsSafeForConcurrentUse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	guardtest.WriteFile(t, path, "one")
	guard := guardtest.MustProvision[Bearer](t, "bearer {\n file "+path+"\n}")
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 50 {
				r := guardtest.NewRequest(t)
				if err := guard.Authorize(t.Context(), r); err != nil {
					t.Error(err)
				}
				_ = guard.Renew(t.Context(), guard.Credential(r), guards.Challenge{})
			}
		})
	}
	group.Wait()
}

// A guard consumes exactly its own segment of a Caddyfile.
func TestUnmarshalStaysInItsSegment(t *testing.T) {
	d := caddyfile.NewTestDispenser("bearer abc\nnext")
	if err := new(Bearer).UnmarshalCaddyfile(d); err != nil {
		t.Fatal(err)
	}
	if !d.Next() || d.Val() != "next" {
		t.Errorf("the next token is %q", d.Val())
	}
}
