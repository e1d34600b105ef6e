// Package stdio is the transport "stdio" of Caddy's reverse_proxy: an upstream that is a program
// which speaks MCP on its standard input and output.
package stdio

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/budget"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/exit"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/origin"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/program"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

func init() {
	caddy.RegisterModule(new(Transport))
}

// Transport runs a program that speaks MCP on its standard input and output, and presents it as
// a server of Streamable HTTP at the revisions that it speaks. The upstream's address gives the program its name
// in logs and errors: `stdio/NAME`.
//
// A process of the program runs for each session of a client, and one for all requests at
// 2026-07-28, which have none. Nothing is started before there is a request that needs it, and a reload with the
// same command, and the same values in it and in the environment, keeps processes and sessions. A
// process that nobody uses is stopped; the session goes on with another one at its next request.
// What a process has kept in memory is lost then. Whoever reaches Caddy uses the program with
// Caddy's rights and the environment given here.
type Transport struct {
	// The program: a path, or a name that is looked for in the PATH of its
	// environment. No shell reads it. Placeholders such as `{env.HOME}` and
	// `{file./run/secrets/token}` are replaced at each start, here and in args,
	// env and dir. One that is empty is an error then.
	Command string `json:"command"`

	// The arguments of the program. All users of a machine can see them: secrets belong in env.
	Args []string `json:"args,omitempty"`

	// The program's environment, in addition to HOME, LOGNAME, PATH, SHELL, TERM,
	// USER, LANG, LC_*, TZ and TMPDIR of Caddy, which go without saying.
	Env map[string]string `json:"env,omitempty"`

	// Other variables of Caddy's environment that the program gets.
	PassEnv []string `json:"pass_env,omitempty"`

	// The directory to run in. Default: Caddy's own
	Dir string `json:"dir,omitempty"`

	// The user to run as, by name or number, with that user's groups, HOME, LOGNAME
	// and USER. Caddy has to run as root. Default: Caddy's own
	User string `json:"user,omitempty"`

	// Whether all sessions use one process, for programs of which there cannot be two. It is used
	// at revisions with sessions, unless era is `modern`.
	Share bool `json:"share,omitempty"`

	// What the program speaks: `legacy`, which is revisions with sessions, or `modern`, which is
	// 2026-07-28. Default: found out, by a process that is asked
	Era string `json:"era,omitempty"`

	// Whether a process starts only for what the program has not said before. A client that
	// opens a session is told what the program has said last to such a client, also before
	// a restart of Caddy, and who merely listens for changes of lists keeps no process
	// running. Default: `true`
	Lazy *bool `json:"lazy,omitempty"`

	// How long a process may take to start and to answer `initialize` or
	// `server/discover`.
	// Default: `2m`
	StartTimeout caddy.Duration `json:"start_timeout,omitempty"`

	// How long a process runs on after the last answer that a client has waited for; a negative
	// number means for ever. Default: `5m`
	Idle caddy.Duration `json:"idle,omitempty"`

	// How long a process has to end after its standard input was closed, and as long again after
	// SIGTERM, before it is killed with all processes of its group. Default: `2s`
	StopGrace caddy.Duration `json:"stop_grace,omitempty"`

	// How many processes run at most. If another one is needed, that which has been unused for
	// the longest time is stopped; without any, the client is refused. Default: `32`
	Max int `json:"max,omitempty"`

	// How many bytes messages on their way may take, to and from all processes of the program. Only those
	// of more than 64 KiB count, and they may take three quarters of that. A client whose message has no
	// room is answered 503. An answer waits for room, which slow clients may have: a client that
	// reads nothing for 20 seconds loses its answer. Default: with `mcp_cache`, all its programs
	// together have as many bytes as its memory; otherwise 64 MiB for each program
	Memory int64 `json:"memory,omitempty"`

	program *program.Program
	checked bool // the origins of requests, in front
	named   sync.Once
	keys    []string // of the pool, that have been acquired
}

const (
	defaultStartTimeout = 2 * time.Minute
	defaultIdle         = 5 * time.Minute
	defaultStopGrace    = 2 * time.Second
	defaultMax          = 32
	// MostProcesses is the largest value of the option max.
	MostProcesses = 10_000
	// LeastMemory is the smallest value of the option memory, in bytes.
	LeastMemory   = 1 << 20
	defaultMemory = 64 << 20
	// farewell is how long programs have when Caddy stops.
	farewell = 1500 * time.Millisecond
)

// CaddyModule returns the Caddy module information.
func (*Transport) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.reverse_proxy.transport.stdio",
		New: func() caddy.Module { return new(Transport) },
	}
}

// pool has the programs, and their host.
var pool = caddy.NewUsagePool()

const hostKey = "host"

// host is what all programs share, for the pool.
type host struct{ *program.Host }

// Destruct implements [caddy.Destructor]. The last programs may need some time to end, which a
// reload does not wait for.
func (h *host) Destruct() error {
	if caddy.Exiting() {
		h.Close()
	} else {
		go h.Close()
	}
	return nil
}

// running is a program, for the pool.
type running struct{ *program.Program }

// Destruct implements [caddy.Destructor].
func (r *running) Destruct() error {
	r.Close()
	return nil
}

// Provision prepares the program. It starts nothing. What is not there, may be installed later:
// that is a warning.
func (t *Transport) Provision(ctx caddy.Context) error {
	if err := t.check(); err != nil {
		return err
	}
	log := ctx.Logger()
	if command, err := t.render(); err != nil {
		log.Warn("program cannot be started now", zap.String("command", t.Command), zap.Error(err))
	} else if err := command.Check(); err != nil {
		log.Warn("program cannot be started now", zap.String("command", t.Command), zap.Error(err))
	}
	shared, _, err := pool.LoadOrNew(hostKey, func() (caddy.Destructor, error) {
		return &host{program.NewHost()}, nil
	})
	if err != nil {
		return err
	}
	t.keys = append(t.keys, hostKey)
	key, err := t.key()
	if err != nil {
		return err
	}
	value, loaded, err := pool.LoadOrNew(key, func() (caddy.Destructor, error) {
		records := &records{program: key}
		if err := records.store.Provision(ctx); err != nil {
			return nil, err
		}
		return &running{shared.(*host).New(t.render, program.Kind{Share: t.Share, Era: t.Era}, t.limits(), records, log)}, nil
	})
	if err != nil {
		return err
	}
	t.keys = append(t.keys, key)
	t.program = value.(*running).Program
	if loaded {
		t.program.Configure(t.limits(), log)
	}
	return exit.Before(ctx, func() { shared.(*host).EndAll(farewell) })
}

// check returns an error if the configuration cannot be meant.
func (t *Transport) check() error {
	switch {
	case t.Command == "":
		return errors.New("command is missing: it is the program to run, such as npx")
	case t.Era != "" && !slices.Contains(revision.EraNames(), t.Era):
		return fmt.Errorf("era: %q is neither legacy nor modern", t.Era)
	case t.StartTimeout < 0:
		return errors.New("start_timeout: a duration of more than 0 is needed")
	case t.StopGrace < 0:
		return errors.New("stop_grace: a duration of more than 0 is needed")
	case t.Max < 0 || t.Max > MostProcesses:
		return fmt.Errorf("max: %d is not a whole number from 1 to %d", t.Max, MostProcesses)
	case t.Memory != 0 && t.Memory < LeastMemory:
		return fmt.Errorf("memory: %d is less than %d bytes", t.Memory, LeastMemory)
	}
	for name := range t.Env {
		if err := checkVariable(name); err != nil {
			return fmt.Errorf("env: %w", err)
		}
	}
	for _, name := range t.PassEnv {
		if err := checkVariable(name); err != nil {
			return fmt.Errorf("pass_env: %w", err)
		}
	}
	return nil
}

// key returns what makes the program the same one after a reload, also for the values of its
// secrets. None of them can be read in it: it may show up in what is written about the pool.
func (t *Transport) key() (string, error) {
	text, err := json.Marshal([]any{t.Command, t.Args, t.Env, t.PassEnv, t.Dir, t.User, t.Share, t.Era, t.Identity()})
	if err != nil {
		return "", fmt.Errorf("writing the command: %w", err)
	}
	return fmt.Sprintf("%x", sha256.Sum256(text)), nil
}

// Identity returns what tells the program from others of the same configuration: a digest of the
// command as it is run now, with the values of its placeholders and of the variables that are passed
// on. It is nil if there is none as yet.
func (t *Transport) Identity() []byte {
	command, err := t.render()
	if err != nil {
		return nil
	}
	command.Env = slices.DeleteFunc(command.Env, func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		_, given := t.Env[name]
		return !given && !slices.Contains(t.PassEnv, name)
	})
	slices.Sort(command.Env)
	text, err := json.Marshal([]any{command.Path, command.Args, command.Env, command.Dir})
	if err != nil {
		return nil
	}
	sum := sha256.Sum256(text)
	return sum[:]
}

// Limits are the fields of a [Transport] that may change while the program goes on.
var Limits = []string{"start_timeout", "idle", "stop_grace", "max", "memory", "lazy"}

func (t *Transport) limits() program.Limits {
	limits := program.Limits{
		StartTimeout: defaultStartTimeout, Idle: defaultIdle, StopGrace: defaultStopGrace, Max: defaultMax, Memory: defaultMemory,
		Lazy: t.Lazy == nil || *t.Lazy,
	}
	if t.StartTimeout > 0 {
		limits.StartTimeout = time.Duration(t.StartTimeout)
	}
	if t.Idle != 0 {
		limits.Idle = max(0, time.Duration(t.Idle))
	}
	if t.StopGrace > 0 {
		limits.StopGrace = time.Duration(t.StopGrace)
	}
	if t.Max > 0 {
		limits.Max = t.Max
	}
	if t.Memory > 0 {
		limits.Memory = t.Memory
	}
	return limits
}

// RoundTrip implements [http.RoundTripper].
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	t.named.Do(func() {
		if chosen, ok := reverseproxy.GetDialInfo(r.Context()); ok {
			t.program.SetName(chosen.Host)
		}
	})
	if _, proxied := r.Context().Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server); proxied && !t.checked {
		// A page of another site must not use a program that trusts its machine
		// (2025-11-25, "Security Warning" of the Streamable HTTP transport).
		if refusal := (origin.Rules{}).Refuses(r); refusal.Reason != "" {
			return program.Forbid(r, refusal.Reason), nil
		}
	}
	return t.program.RoundTrip(r)
}

// OriginsAreChecked says that a handler in front refuses requests of foreign pages. Otherwise the
// transport does. It has to be called before the first request.
func (t *Transport) OriginsAreChecked() { t.checked = true }

// ShareMemory has messages on their way take that memory, which others take from, too. A Memory of its own
// counts instead.
func (t *Transport) ShareMemory(room *budget.Room) {
	if t.Memory == 0 {
		t.program.ShareMemory(room)
	}
}

// Asleep reports whether no process of the program runs, and only needs start one: see Lazy.
func (t *Transport) Asleep() bool { return t.limits().Lazy && t.program.Asleep() }

// OnWake calls woken whenever a client uses the program that has slept, with the time when it
// started, until stop is called. woken must return at once.
func (t *Transport) OnWake(woken func(since time.Time)) (stop func()) { return t.program.OnWake(woken) }

// Announce sends a notification that a list has changed to all clients that listen for it.
func (t *Transport) Announce(method string) { t.program.Announce(method) }

// Status returns how the program is.
func (t *Transport) Status() program.Status { return t.program.Status() }

// Restart stops all processes of the program, and returns once they have ended how many it has
// stopped. What needs one starts another.
func (t *Transport) Restart() (stopped int) { return t.program.Restart() }

// String returns the command as it is configured: with placeholders, not with their values.
func (t *Transport) String() string {
	words := append([]string{t.Command}, t.Args...)
	for i, word := range words {
		if word == "" || strings.ContainsFunc(word, func(r rune) bool { return unicode.IsSpace(r) || r == '"' }) {
			words[i] = strconv.Quote(word)
		}
	}
	return "stdio " + strings.Join(words, " ")
}

// PassesHost reports whether the program is told the Host of the client: it hears of none.
func (*Transport) PassesHost() bool { return false }

// Cleanup implements [caddy.CleanerUpper]. A program that no configuration has any more ends.
func (t *Transport) Cleanup() error {
	var errs []error
	for len(t.keys) > 0 {
		last := len(t.keys) - 1
		_, err := pool.Delete(t.keys[last])
		errs = append(errs, err)
		t.keys = t.keys[:last]
	}
	return errors.Join(errs...)
}

// Interface guards
var (
	_ caddy.Provisioner  = (*Transport)(nil)
	_ caddy.CleanerUpper = (*Transport)(nil)
	_ http.RoundTripper  = (*Transport)(nil)
	_ caddy.Destructor   = (*host)(nil)
	_ caddy.Destructor   = (*running)(nil)
)
