package redis

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"
	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/stores"
)

const (
	// beat is how often Redis is asked for its time while it answers.
	beat = 250 * time.Millisecond
	// firstPause and lastPause are the pauses before it is asked again while it is away,
	// refusedPause while it does not want us, so that its log stays readable.
	firstPause, lastPause, refusedPause = 250 * time.Millisecond, time.Second, 5 * time.Second
	// linger is how long a connection stays that nobody uses any more: snapshots are saved
	// while a configuration ends.
	linger = 5 * time.Second
	// oldest is the first major version of Redis that will do.
	oldest = 6
)

// link is the connection to one Redis. It is made in the background when it is first
// asked for, and again whenever it breaks.
type link struct {
	option  rueidis.ClientOption
	started sync.Once
	tried   chan struct{} // closed after the first attempt
	ctx     context.Context
	cancel  context.CancelFunc

	mu sync.Mutex
	// redis and members are nil until the first connection. members is one of its own: what
	// members tell each other does not wait until large lists are through.
	redis, members rueidis.Client
	state          stores.State
	ahead          time.Duration // of the clock of Redis
	within         time.Duration // by how much ahead may be wrong
	logger         *zap.Logger
}

var errUntried = errors.New("nobody has asked it yet")

func newLink(option rueidis.ClientOption) *link {
	l := &link{option: option, tried: make(chan struct{}), state: stores.State{Failure: errUntried, Since: time.Now()}}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// logTo has changes of the state logged there from now on.
func (l *link) logTo(logger *zap.Logger) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.logger = logger
}

// Destruct implements [caddy.Destructor].
func (l *link) Destruct() error {
	time.AfterFunc(linger, l.cancel)
	return nil
}

// client returns what asks Redis, after the first attempt to connect. While Redis is away
// it is an [stores.ErrAway].
func (l *link) client(ctx context.Context) (rueidis.Client, error) {
	return l.connected(ctx, &l.redis)
}

// membersClient is client for what members tell each other.
func (l *link) membersClient(ctx context.Context) (rueidis.Client, error) {
	return l.connected(ctx, &l.members)
}

// connected returns one of the clients.
func (l *link) connected(ctx context.Context, which *rueidis.Client) (rueidis.Client, error) {
	l.started.Do(func() { go l.run() })
	select {
	case <-l.tried:
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: waiting for a connection: %w", stores.ErrAway, ctx.Err())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state.Failure != nil {
		return nil, fmt.Errorf("%w: %w", stores.ErrAway, l.state.Failure)
	}
	return *which, nil
}

// now returns the time by the clock of Redis, and by how much it may be wrong.
func (l *link) now() (now time.Time, within time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Now().Add(l.ahead), l.within
}

func (l *link) current() stores.State {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state
}

// run keeps the connection until the link ends.
func (l *link) run() {
	defer l.end()
	for pause := firstPause; ; {
		refused, err := l.ask()
		l.note(err)
		wait := beat
		switch {
		case err == nil:
			pause = firstPause
		case refused:
			wait = refusedPause
		default:
			wait, pause = pause, min(2*pause, lastPause)
		}
		select {
		case <-l.ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// end closes the connection. What is asked for afterwards finds Redis away.
func (l *link) end() {
	p := recover()
	l.mu.Lock()
	defer l.mu.Unlock()
	if p != nil {
		l.logger.Error("the connection to redis panicked, and has ended", zap.Any("panic", p), zap.Stack("stack"))
	}
	l.state = stores.State{Failure: errors.New("the connection has ended"), Since: time.Now()}
	select {
	case <-l.tried:
	default:
		close(l.tried)
	}
	for _, client := range []rueidis.Client{l.redis, l.members} {
		if client != nil {
			client.Close()
		}
	}
}

// note records what came of asking, and logs a change of the state.
func (l *link) note(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := l.state.Failure == errUntried //nolint:errorlint // it is this very one
	if l.ctx.Err() != nil {
		return
	}
	switch {
	case err != nil && (first || l.state.Failure == nil):
		l.logger.Warn("redis is away: this instance keeps its lists by itself until it is back", zap.Strings("addresses", l.option.InitAddress), zap.Error(err))
	case err == nil && l.state.Failure != nil:
		l.logger.Info("redis is there", zap.Strings("addresses", l.option.InitAddress))
	}
	if (err == nil) != (l.state.Failure == nil) || first {
		l.state.Since = time.Now()
	}
	l.state.Failure = err
	if first {
		close(l.tried)
	}
}

// ask connects to Redis, if that has not been done, and asks for its time. It reports
// whether Redis has answered that it does not want us.
func (l *link) ask() (refused bool, err error) {
	l.mu.Lock()
	redis, members := l.redis, l.members
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(l.ctx, l.option.Dialer.Timeout)
	defer cancel()
	if redis == nil {
		if redis, err = rueidis.NewClient(l.option); err != nil {
			_, refused = rueidis.IsRedisErr(err)
			return refused, plainly(err)
		}
		if err := checkVersion(ctx, redis); err != nil {
			redis.Close()
			return true, err
		}
		if members, err = rueidis.NewClient(l.option); err != nil {
			redis.Close()
			return false, plainly(err)
		}
	}
	ahead, within, err := clockOf(ctx, redis)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.redis, l.members = redis, members
	if err == nil {
		l.ahead, l.within = ahead, within
	}
	_, refused = rueidis.IsRedisErr(err)
	return refused, plainly(err)
}

// clockOf asks for the time, and returns how far that clock is ahead of ours, and by how much
// that may be wrong: the answer was made at some time between the question and its arrival.
func clockOf(ctx context.Context, redis rueidis.Client) (ahead, within time.Duration, err error) {
	begun := time.Now()
	parts, err := redis.Do(ctx, redis.B().Time().Build()).AsIntSlice()
	within = time.Since(begun) / 2
	if err != nil {
		return 0, 0, err
	}
	if len(parts) != 2 {
		return 0, 0, fmt.Errorf("redis says its time in %d numbers, not two", len(parts))
	}
	theirs := time.Unix(parts[0], 0).Add(time.Duration(parts[1]) * time.Microsecond)
	return theirs.Sub(begun.Add(within)), within, nil
}

// checkVersion returns an error if Redis says that it is too old. Users who may not ask for
// that are trusted to know.
func checkVersion(ctx context.Context, redis rueidis.Client) error {
	info, err := redis.Do(ctx, redis.B().Info().Section("server").Build()).ToString()
	if err != nil {
		return nil //nolint:nilerr // what is asked for next says whether it answers
	}
	for line := range strings.Lines(info) {
		if version, ok := strings.CutPrefix(strings.TrimSpace(line), "redis_version:"); ok {
			major, _, _ := strings.Cut(version, ".")
			if n, err := strconv.Atoi(major); err == nil && n < oldest {
				return fmt.Errorf("redis is too old: it is %s, and %d or later is needed", version, oldest)
			}
		}
	}
	return nil
}

// plainly says what can be done about errors that operators meet.
func plainly(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("redis does not answer in time: %w", err)
	}
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("redis has closed the connection: %w", err)
	}
	for _, known := range []struct{ sign, words string }{
		{"WRONGPASS", "redis refuses the username or the password"},
		{"NOAUTH", "redis wants a password: set password or password_file"},
		{"cluster support disabled", "several URLs are nodes of one cluster, and this redis is none: leave one"},
		{"without any password", "redis has no password, and is sent one: leave it out"},
	} {
		if strings.Contains(err.Error(), known.sign) {
			return fmt.Errorf("%s: %w", known.words, err)
		}
	}
	return err
}
