package redis

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/caddy-mcp/mcp-cache/mcpcache/stores"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores/storetest"
)

// server is a Redis of its own.
type server struct {
	t    *testing.T
	args []string
	port string
	run  *exec.Cmd
}

// startServer starts a Redis with those options, which ends with the test.
func startServer(t *testing.T, args ...string) *server {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, port: port, args: append([]string{"--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", t.TempDir()}, args...)}
	if s.program() == "" {
		t.Skip("MCP_REDIS does not say where a redis-server is: .ci/run fleet does that")
	}
	s.start()
	t.Cleanup(s.kill)
	return s
}

func (*server) program() string { return os.Getenv("MCP_REDIS") }

func (s *server) start() {
	s.t.Helper()
	s.run = exec.Command(s.program(), s.args...)
	if err := s.run.Start(); err != nil {
		s.t.Fatalf("starting %s: %v", s.program(), err)
	}
}

func (s *server) kill() {
	if s.run != nil {
		_ = s.run.Process.Kill()
		_ = s.run.Wait()
		s.run = nil
	}
}

func (s *server) signal(signal syscall.Signal) {
	s.t.Helper()
	if err := s.run.Process.Signal(signal); err != nil {
		s.t.Fatal(err)
	}
}

func (s *server) address() string { return net.JoinHostPort("127.0.0.1", s.port) }

func (s *server) url() string { return "redis://" + s.address() }

// do sends a command as its administrator does.
func (s *server) do(command ...string) string {
	s.t.Helper()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{s.address()}, DisableCache: true, ForceSingleClient: true})
	if err != nil {
		s.t.Fatalf("connecting: %v", err)
	}
	defer client.Close()
	answer, err := client.Do(s.t.Context(), client.B().Arbitrary(command...).Build()).ToAny()
	if err != nil && !rueidis.IsRedisNil(err) {
		s.t.Fatalf("%v: %v", command, err)
	}
	return fmt.Sprint(answer)
}

// connect returns a store that is connected.
func connect(t *testing.T, s *Redis) *Redis {
	t.Helper()
	if err := provision(t, s); err != nil {
		t.Fatal(err)
	}
	_, _ = s.Now(t.Context()) // it is dialled when it is first asked
	awaitState(t, s, "")
	return s
}

func TestRealStore(t *testing.T) {
	redis := startServer(t)
	storetest.Run(t, func(t *testing.T) stores.Store {
		return connect(t, &Redis{URLs: []string{redis.url()}, Prefix: t.Name() + ":"})
	})
}

// What nobody saves again is forgotten, databases and prefixes are apart, the clock is
// that of Redis, and what another program has written is not ours.
func TestRealValues(t *testing.T) {
	redis := startServer(t)
	s := connect(t, &Redis{URLs: []string{redis.url() + "/2"}, Prefix: "p:"})
	if err := s.Save(t.Context(), "a/b.snapshot", []byte("value")); err != nil {
		t.Fatal(err)
	}
	others := connect(t, &Redis{URLs: []string{redis.url() + "/3"}, Prefix: "p:"})
	if _, err := others.Load(t.Context(), "a/b.snapshot"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("in another database there is an answer: %v", err)
	}
	if keys := redis.do("EVAL", "redis.call('SELECT', 2); return redis.call('KEYS', '*')", "0"); keys != "[p:mc1:{a}:b.snapshot]" {
		t.Errorf("the keys are %s", keys)
	}
	week := (7 * 24 * time.Hour).Seconds()
	if left := redis.do("EVAL", "redis.call('SELECT', 2); return redis.call('TTL', 'p:mc1:{a}:b.snapshot') > tonumber(ARGV[1]) and 1 or 0", "0", fmt.Sprint(week)); left != "1" {
		t.Error("it is forgotten within a week, or never")
	}
	if now, err := s.Now(t.Context()); err != nil || time.Until(now).Abs() > time.Minute {
		t.Errorf("now is %v, %v", now, err)
	}
	redis.do("EVAL", "redis.call('SELECT', 2); return redis.call('HSET', 'p:mc1:{a}:hash', 'x', 'y')", "0")
	_, loading := s.Load(t.Context(), "a/hash")
	_, sizing := s.Size(t.Context(), "a/hash")
	if !errors.Is(loading, stores.ErrForeign) || !errors.Is(sizing, stores.ErrForeign) {
		t.Errorf("of a hash: %v, %v", loading, sizing)
	}
	if err := s.Save(t.Context(), "a/hash", []byte("ours")); err != nil {
		t.Errorf("it cannot be replaced: %v", err)
	}
}

// A frozen Redis, and one that is killed, is away until it is back.
func TestRealTrouble(t *testing.T) {
	redis := startServer(t)
	s := connect(t, &Redis{URLs: []string{redis.url()}})
	redis.signal(syscall.SIGSTOP)
	awaitState(t, s, "redis does not answer in time")
	wantAway(t, s)
	redis.signal(syscall.SIGCONT)
	awaitState(t, s, "")
	redis.kill()
	awaitState(t, s, "refused")
	wantAway(t, s)
	redis.start()
	awaitState(t, s, "")
	if err := s.Save(t.Context(), "a/b", []byte("x")); err != nil {
		t.Errorf("after that: %v", err)
	}
}

// A password that is replaced in its file is used for the next connection.
func TestRealPasswords(t *testing.T) {
	redis := startServer(t, "--requirepass", "first")
	file := filepath.Join(t.TempDir(), "password")
	write := func(password string) {
		if err := os.WriteFile(file, []byte(password+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("first")
	connect(t, &Redis{URLs: []string{"redis://:first@" + redis.address()}})
	connect(t, &Redis{URLs: []string{redis.url()}, Username: "default", Password: "first"})
	s := connect(t, &Redis{URLs: []string{redis.url()}, PasswordFile: file})
	redis.kill()
	redis.args = append(redis.args, "--requirepass", "second")
	redis.start()
	wrong := &Redis{URLs: []string{redis.url()}, Password: "first"}
	if err := provision(t, wrong); err != nil {
		t.Fatal(err)
	}
	awaitState(t, s, "refuse") // by the port, or for the password
	write("second")
	awaitState(t, s, "")
	wantAway(t, wrong)
	awaitState(t, wrong, "redis refuses the username or the password")
}

// Keys are where the nodes of a cluster say, whichever of them is named.
func TestRealCluster(t *testing.T) {
	first, second := startServer(t, "--cluster-enabled", "yes"), startServer(t, "--cluster-enabled", "yes")
	awaitAnswer(t, first)
	awaitAnswer(t, second)
	first.do("CLUSTER", "ADDSLOTSRANGE", "0", "8000")
	second.do("CLUSTER", "ADDSLOTSRANGE", "8001", "16383")
	first.do("CLUSTER", "MEET", "127.0.0.1", second.port)
	for _, node := range []*server{first, second} {
		for deadline := time.Now().Add(patience); !strings.Contains(node.do("CLUSTER", "INFO"), "cluster_state:ok"); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("the cluster does not form: %s", node.do("CLUSTER", "INFO"))
			}
		}
	}
	s := connect(t, &Redis{URLs: []string{first.url(), second.url()}})
	one := connect(t, &Redis{URLs: []string{second.url()}})
	for i := range 20 {
		key, value := fmt.Sprintf("%d/x", i), fmt.Sprint(i)
		if err := s.Save(t.Context(), key, []byte(value)); err != nil {
			t.Fatal(err)
		}
		if got, err := one.Load(t.Context(), key); err != nil || string(got) != value {
			t.Errorf("%s: %q, %v", key, got, err)
		}
	}
	none := &Redis{URLs: []string{startServer(t).url(), startServer(t).url()}}
	if err := provision(t, none); err != nil {
		t.Fatal(err)
	}
	wantAway(t, none)
	awaitState(t, none, "several URLs are nodes of one cluster, and this redis is none")
}

// awaitAnswer waits until a server is there.
func awaitAnswer(t *testing.T, s *server) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		c, err := net.Dial("tcp", s.address())
		if err == nil {
			_ = c.Close()
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

func TestRealTLS(t *testing.T) {
	dir := t.TempDir()
	cert, key := selfSigned(t, dir)
	redis := startServer(t, "--port", "0")
	redis.kill()
	redis.args = append(redis.args, "--tls-port", redis.port, "--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", cert)
	redis.start()
	url := "rediss://" + redis.address()
	s := connect(t, &Redis{URLs: []string{url}, TLS: &TLS{CA: cert, Cert: cert, Key: key}})
	if err := s.Save(t.Context(), "a/b", []byte("x")); err != nil {
		t.Error(err)
	}
	for want, other := range map[string]*Redis{
		"certificate": {URLs: []string{url}, TLS: &TLS{CA: cert}}, // presents none
		"unknown":     {URLs: []string{url}},                      // trusts none such
	} {
		if err := provision(t, other); err != nil {
			t.Fatal(err)
		}
		_, _ = other.Now(t.Context())
		awaitState(t, other, want)
	}
}

// selfSigned writes a certificate for 127.0.0.1, which signs itself, and its key.
func selfSigned(t *testing.T, dir string) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true,
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: signed}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}
