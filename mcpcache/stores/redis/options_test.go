package redis

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

func TestCaddyfile(t *testing.T) {
	for input, want := range map[string]Redis{
		"redis redis://10.0.0.5":                                         {URLs: []string{"redis://10.0.0.5"}},
		"redis redis://10.0.0.5:7000 redis://10.0.0.6:7000":              {URLs: []string{"redis://10.0.0.5:7000", "redis://10.0.0.6:7000"}},
		"redis {env.REDIS_URL} {\n prefix {env.STAGE}\n}":                {URLs: []string{"{env.REDIS_URL}"}, Prefix: "{env.STAGE}"},
		"redis redis://u:p%40@host/3 {\n timeout 300ms\n}":               {URLs: []string{"redis://u:p%40@host/3"}, Timeout: caddy.Duration(300 * time.Millisecond)},
		"redis redis://u:p,w@host":                                       {URLs: []string{"redis://u:p,w@host"}},
		"redis redis://[::1]:1 {\n username u\n password p\n}":           {URLs: []string{"redis://[::1]:1"}, Username: "u", Password: "p"},
		"redis redis://host {\n password_file /run/redis\n}":             {URLs: []string{"redis://host"}, PasswordFile: "/run/redis"},
		"redis rediss://host {\n tls {\n ca /a\n}\n prefix x\n}":         {URLs: []string{"rediss://host"}, TLS: &TLS{CA: "/a"}, Prefix: "x"},
		"redis rediss://host {\n tls {\n server_name {env.NAME:a}\n}\n}": {URLs: []string{"rediss://host"}, TLS: &TLS{ServerName: "{env.NAME:a}"}},
		"redis rediss://host {\n tls {\n server_name fd00::1\n}\n}":      {URLs: []string{"rediss://host"}, TLS: &TLS{ServerName: "fd00::1"}},
		"redis rediss://host {\n tls {\n cert /c\n key /k\n}\n}":         {URLs: []string{"rediss://host"}, TLS: &TLS{Cert: "/c", Key: "/k"}},
	} {
		var got Redis
		if err := got.UnmarshalCaddyfile(caddyfile.NewTestDispenser(input)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v, %v, want %+v", input, got, err, want)
		}
	}
}

func TestCaddyfileMistakes(t *testing.T) {
	for input, want := range map[string]string{
		"redis":                                                "redis takes one URL or more, such as redis://10.0.0.5:6379, at Testfile:1",
		"redis 10.0.0.5:6379":                                  "urls: want redis://HOST:PORT or rediss://HOST:PORT, and one is something else; what is special in a password is percent-encoded, at Testfile:1",
		"redis redis://u:geheim%@h":                            "urls: want redis://HOST:PORT or rediss://HOST:PORT, and one is something else; what is special in a password is percent-encoded, at Testfile:1",
		"redis geheim":                                         "urls: want redis://HOST:PORT or rediss://HOST:PORT, and one is something else; what is special in a password is percent-encoded, at Testfile:1",
		"redis rediss:geheim@h":                                "urls: want redis://HOST:PORT or rediss://HOST:PORT, and one is something else; what is special in a password is percent-encoded, at Testfile:1",
		"redis http://u:geheim@h":                              "urls: want redis://HOST:PORT or rediss://HOST:PORT, and one is something else; what is special in a password is percent-encoded, at Testfile:1",
		"redis redis:///1":                                     "urls: want redis://HOST:PORT or rediss://HOST:PORT, and one is something else; what is special in a password is percent-encoded, at Testfile:1",
		"redis redis://h:0":                                    "urls: redis://h:0: 0 is no port, at Testfile:1",
		"redis redis://h:99999":                                "urls: redis://h:99999: 99999 is no port, at Testfile:1",
		"redis redis://h/cache":                                "urls: redis://h: what follows the host is the number of a database, such as /1, at Testfile:1",
		"redis redis://h?password=geheim":                      "urls: redis://h: it has more than a host and a database; the rest are options of the store, at Testfile:1",
		"redis redis://a rediss://b":                           "urls: they are nodes of one cluster, and differ in more than the node, at Testfile:1",
		"redis redis://a/1 redis://b/1":                        "urls: they are nodes of one cluster, which has no database but 0, at Testfile:1",
		"redis redis://a:1,b:1":                                "urls: one names several hosts; several nodes are several URLs: redis://a:1 redis://b:1, at Testfile:1",
		"redis redis://a,b/2":                                  "urls: one names several hosts; several nodes are several URLs: redis://a redis://b, at Testfile:1",
		"redis redis://a:1,b":                                  "urls: one names several hosts; several nodes are several URLs: redis://a:1 redis://b, at Testfile:1",
		"redis redis://a,":                                     "urls: one names several hosts; several nodes are several URLs: redis://a, at Testfile:1",
		"redis rediss://[::1]:1,[::1]:2":                       "urls: one names several hosts; several nodes are several URLs: rediss://[::1]:1 rediss://[::1]:2, at Testfile:1",
		"redis redis://a:1,redis://b:1 redis://c":              "urls: one names several hosts; several nodes are several URLs: redis://a:1 redis://b:1, at Testfile:1",
		"redis \"redis://a:1 redis://b:1\"":                    "urls: one names several hosts; several nodes are several URLs: redis://a:1 redis://b:1, at Testfile:1",
		"redis rediss://u:geheim@a:1,b:1":                      "urls: one names several hosts; several nodes are several URLs: rediss://a:1 rediss://b:1, each with the same username and password, at Testfile:1",
		"redis redis://u:geheim@a:1,u:geheim@b:1":              "urls: one names several hosts; several nodes are several URLs: redis://HOST:PORT redis://HOST:PORT; what is special in a password is percent-encoded, at Testfile:1",
		"redis redis://u:1,geheim@a,b":                         "urls: one names several hosts; several nodes are several URLs: redis://HOST:PORT redis://HOST:PORT; what is special in a password is percent-encoded, at Testfile:1",
		"redis redis://u:geheim,1":                             "urls: one names several hosts; several nodes are several URLs: redis://HOST:PORT redis://HOST:PORT; what is special in a password is percent-encoded, at Testfile:1",
		"redis redis://h {\n password\n}":                      "password takes one argument, not none, at Testfile:2",
		"redis redis://h {\n password p\n password_file /f\n}": "the password is given twice: leave one of password, password_file and that in the URL, at Testfile:4",
		"redis redis://:p@h {\n password p\n}":                 "the password is given twice: leave one of password, password_file and that in the URL, at Testfile:3",
		"redis redis://u:p@h {\n username u\n}":                "username: the URL has one, too: leave one of them out, at Testfile:3",
		"redis redis://h {\n timeout 0\n}":                     `invalid timeout "0": want a duration of more than 0, at Testfile:2`,
		"redis redis://h {\n prefix a\n prefix b\n}":           "prefix already specified, at Testfile:3",
		"redis redis://h {\n sentinel x\n}":                    `unrecognized subdirective "sentinel"; the options are password, password_file, prefix, timeout, tls, username, at Testfile:2`,
		"redis redis://h {\n tls {\n ca /a\n}\n}":              "tls: it is for URLs that begin with rediss://, at Testfile:5",
		"redis redis://h {\n tls {\n server_name a\n}\n}":      "tls: it is for URLs that begin with rediss://, at Testfile:5",
		"redis rediss://h {\n tls {\n server_name\n}\n}":       "server_name takes one argument, not none, at Testfile:3",
		"redis rediss://h {\n tls {\n server_name a:1\n}\n}":   "tls server_name: a:1: want the name in the certificate alone, such as redis.example.com, at Testfile:5",
		"redis rediss://h {\n tls /a\n}":                       "tls takes a block with ca, cert, key and server_name, and no arguments, at Testfile:2",
		"redis rediss://h {\n tls {\n cert /a\n}\n}":           "tls: cert and key are given together, at Testfile:5",
		"redis rediss://h {\n tls {\n insecure\n}\n}":          `unrecognized subdirective "insecure"; the options are ca, cert, key, server_name, at Testfile:3`,
	} {
		var s Redis
		got := "no error"
		if err := s.UnmarshalCaddyfile(caddyfile.NewTestDispenser(input)); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q:\n got %s\nwant %s", input, got, want)
		}
		if strings.Contains(got, "geheim") {
			t.Errorf("%q: the error shows the password: %s", input, got)
		}
	}
}

// provision sets up a store, which ends with the test.
func provision(t testing.TB, s *Redis) error {
	t.Helper()
	ctx, cancel := caddy.NewContext(caddy.Context{Context: context.Background()})
	t.Cleanup(cancel)
	err := s.Provision(ctx)
	t.Cleanup(func() {
		if err := s.Cleanup(); err != nil {
			t.Errorf("cleaning up: %v", err)
		}
	})
	return err
}

// What cannot work is an error at load.
func TestProvisionMistakes(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("REDIS_PLACE", "nowhere")
	t.Setenv("REDIS_HOST", "rediss://h")
	t.Setenv("REDIS_NODES", "rediss://u:geheim@a:1,b:1")
	for want, s := range map[string]Redis{
		"urls: want one or more, such as redis://10.0.0.5:6379":                                                                              {},
		"urls: placeholder {env.REDIS_URL_UNSET} is empty or unknown":                                                                        {URLs: []string{"{env.REDIS_URL_UNSET}"}},
		"urls: want redis://HOST:PORT or rediss://HOST:PORT, and one is something else; what is special in a password is percent-encoded":    {URLs: []string{"{env.REDIS_PLACE}:1"}},
		"urls: one names several hosts; several nodes are several URLs: rediss://a:1 rediss://b:1, each with the same username and password": {URLs: []string{"{env.REDIS_NODES}"}},
		"urls: one names several hosts; several nodes are several URLs: redis://a:1 redis://b:1":                                             {URLs: []string{"redis://a:1,b:1"}},
		"timeout: -1s is not a duration of more than 0":                                                                                      {URLs: []string{"redis://h"}, Timeout: caddy.Duration(-time.Second)},
		"password_file: path must be absolute":                                                                                               {URLs: []string{"redis://h"}, PasswordFile: "password"},
		"password_file: reading password file: stat " + filepath.Join(dir, "missing"):                                                        {URLs: []string{"redis://h"}, PasswordFile: filepath.Join(dir, "missing")},
		"password_file: reading password file: " + empty + " is empty":                                                                       {URLs: []string{"redis://h"}, PasswordFile: empty},
		"tls server_name: rediss://h: want the name":                                                                                         {URLs: []string{"rediss://h"}, TLS: &TLS{ServerName: "{env.REDIS_HOST}"}},
		"tls ca: open " + filepath.Join(dir, "ca.pem") + ": no such file":                                                                    {URLs: []string{"rediss://h"}, TLS: &TLS{CA: filepath.Join(dir, "ca.pem")}},
		"tls ca: " + empty + " has no certificate in PEM":                                                                                    {URLs: []string{"rediss://h"}, TLS: &TLS{CA: empty}},
		"tls cert and key: stat " + filepath.Join(dir, "cert.pem") + ": no such file":                                                        {URLs: []string{"rediss://h"}, TLS: &TLS{Cert: filepath.Join(dir, "cert.pem"), Key: empty}},
		"tls cert and key: " + empty + " is empty":                                                                                           {URLs: []string{"rediss://h"}, TLS: &TLS{Cert: empty, Key: empty}},
	} {
		if err := provision(t, &s); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "geheim") {
			t.Errorf("%+v: %v, want %s", s, err, want)
		}
	}
}

// Keys of one server are in one slot of a cluster; no two keys are the same.
func TestKeys(t *testing.T) {
	s := Redis{Prefix: "stage:"}
	for key, want := range map[string]string{
		"ab12/2026-07-28.tools.snapshot": "stage:mc1:{ab12}:2026-07-28.tools.snapshot",
		"name":                           "stage:mc1:name",
		"a/b/c":                          "stage:mc1:{a}:b/c",
	} {
		if got := s.keyOf(key); got != want {
			t.Errorf("%s is kept as %s, want %s", key, got, want)
		}
	}
}

// The page names the commands that an error names.
func TestCommandsOnThePage(t *testing.T) {
	page, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	said := strings.Join(strings.Fields(strings.ReplaceAll(string(page), "`", "")), " ")
	if !strings.Contains(said, "The commands are "+commands+".") {
		t.Errorf("the page does not say that the commands are %s", commands)
	}
}
