package oauth

import (
	"reflect"
	"testing"
)

func TestParseChallenges(t *testing.T) {
	type params = map[string]string
	for value, want := range map[string][]authChallenge{
		``:       nil,
		`Bearer`: {{"Bearer", params{}}},
		`Bearer realm="a, b", error="invalid_token"`: {{"Bearer", params{"realm": "a, b", "error": "invalid_token"}}},
		`bearer Resource_Metadata="https://a/x?y=z"`: {{"bearer", params{"resource_metadata": "https://a/x?y=z"}}},
		`Bearer scope = "a \"b\" c" , realm = token`: {{"Bearer", params{"scope": `a "b" c`, "realm": "token"}}},
		`Negotiate, Bearer scope="x"`:                {{"Negotiate", params{}}, {"Bearer", params{"scope": "x"}}},
		`Negotiate YWJj==, Bearer scope="x"`:         {{"Negotiate", params{}}, {"Bearer", params{"scope": "x"}}},
		`NTLM YWJj/+, Basic realm="r", Bearer`:       {{"NTLM", params{}}, {"Basic", params{"realm": "r"}}, {"Bearer", params{}}},
		`Bearer a="1", a="2"`:                        {{"Bearer", params{"a": "1"}}},
		`Bearer a="never ends`:                       {{"Bearer", params{"a": ""}}},
		`, ,Bearer a=b,`:                             {{"Bearer", params{"a": "b"}}},
		`=x "y" Bearer a=b`:                          {{"x", params{}}, {"y", params{}}, {"Bearer", params{"a": "b"}}},
	} {
		if got := parseChallenges(value); !reflect.DeepEqual(got, want) {
			t.Errorf("%s\ngot  %v\nwant %v", value, got, want)
		}
	}
}

func TestFindBearer(t *testing.T) {
	got, ok := findBearer([]string{`Basic realm="x"`, `Bearer a=b`, `Digest x=y, Bearer resource_metadata="https://m"`})
	if !ok || got.params["resource_metadata"] != "https://m" {
		t.Errorf("found %v, %v", got, ok)
	}
	if got, ok := findBearer([]string{`Bearer a=b, Bearer c=d`}); !ok || got.params["a"] != "b" {
		t.Errorf("found %v, %v", got, ok)
	}
	if _, ok := findBearer([]string{`Basic realm="Bearer"`}); ok {
		t.Error("found a challenge that is not there")
	}
}

func FuzzParseChallenges(f *testing.F) {
	for _, seed := range []string{`Bearer realm="a", scope=b`, `Negotiate YQ==, Basic`, `a = "\`, `,,=`, "é \x00=\"", `x y=z=`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		for _, c := range parseChallenges(value) {
			if c.scheme == "" || c.params == nil {
				t.Errorf("%q gives %v", value, c)
			}
			for name, content := range c.params {
				if name == "" || len(content) > len(value) {
					t.Errorf("%q gives parameter %q=%q", value, name, content)
				}
			}
		}
	})
}
