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

	"github.com/redis/go-redis/v9"
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
	to      *dialling
	started sync.Once
	tried   chan struct{} // closed after the first attempt
	ctx     context.Context
	cancel  context.CancelFunc

	mu sync.Mutex
	// redis and members are nil until the first connection. members is one of its own: what
	// members tell each other does not wait until large lists are through.
	redis, members redis.UniversalClient
	// replica is the answer by which a read-only replica has refused a command of these two.
	replica error
	state   stores.State
	ahead   time.Duration // of the clock of Redis
	within  time.Duration // by how much ahead may be wrong
	logger  *zap.Logger
}

var errUntried = errors.New("nobody has asked it yet")

func newLink(to *dialling) *link {
	l := &link{to: to, tried: make(chan struct{}), state: stores.State{Failure: errUntried, Since: time.Now()}}
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

// clientOf is [link.client] or [link.membersClient].
type clientOf func(*link, context.Context) (redis.UniversalClient, error)

// client returns what asks Redis, after the first attempt to connect. While Redis is away
// it is an [stores.ErrAway].
func (l *link) client(ctx context.Context) (redis.UniversalClient, error) {
	return l.connected(ctx, &l.redis)
}

// membersClient is client for what members tell each other.
func (l *link) membersClient(ctx context.Context) (redis.UniversalClient, error) {
	return l.connected(ctx, &l.members)
}

// connected returns one of the clients.
func (l *link) connected(ctx context.Context, which *redis.UniversalClient) (redis.UniversalClient, error) {
	l.started.Do(func() { go l.run() })
	select {
	case <-l.tried:
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: waiting for a connection: %w", stores.ErrAway, ctx.Err())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.state.Failure != nil:
		return nil, fmt.Errorf("%w: %w", stores.ErrAway, l.state.Failure)
	case *which == nil:
		return nil, fmt.Errorf("%w: it is being connected anew", stores.ErrAway)
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
	defer l.closeConnection()
	for pause := firstPause; ; {
		refused, err := l.askTime()
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

// closeConnection closes the connection. What is asked for afterwards finds Redis away.
func (l *link) closeConnection() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state = stores.State{Failure: errors.New("the connection has ended"), Since: time.Now()}
	select {
	case <-l.tried:
	default:
		close(l.tried)
	}
	for _, client := range []redis.UniversalClient{l.redis, l.members} {
		if client != nil {
			_ = client.Close() // nobody needs it any more
		}
	}
}

// careful does something with a client. A panic of the library is an error: whatever Redis
// sends, Caddy goes on.
func (l *link) careful(do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.logger.Error("the client of redis panicked", zap.Any("panic", p), zap.Stack("stack"))
			err = fmt.Errorf("the client of redis panicked: %v", p)
		}
	}()
	return do()
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
		l.logger.Warn("redis is away: this instance keeps its lists by itself until it is back", zap.Strings("addresses", l.to.addresses), zap.Error(err))
	case err == nil && l.state.Failure != nil:
		l.logger.Info("redis is there", zap.Strings("addresses", l.to.addresses))
	}
	if (err == nil) != (l.state.Failure == nil) || first {
		l.state.Since = time.Now()
	}
	l.state.Failure = err
	if first {
		close(l.tried)
	}
}

// demoted notes that a client leads to a replica, by its answer. What is connected now has
// nothing to do with the answers to clients of before.
func (l *link) demoted(client redis.UniversalClient, answer error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if client == l.redis || client == l.members {
		l.replica = answer
	}
}

// clients returns what asks Redis, nil if nothing does. Clients that lead to a replica are closed with
// all their connections, subscriptions included, and the replica's answer is returned. PING and TIME
// still work there, and the library closes only the connection that a READONLY came on. The next
// clients dial the name anew, which may lead to the new primary by then.
func (l *link) clients() (first, members redis.UniversalClient, replica error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	first, members, replica = l.redis, l.members, l.replica
	if replica != nil {
		l.redis, l.members, l.replica = nil, nil, nil
		_, _ = first.Close(), members.Close() // nobody uses them any more
	}
	return first, members, replica
}

// askTime connects to Redis, if that has not been done, and asks for its time. It reports
// whether Redis has answered that it does not want us.
func (l *link) askTime() (refused bool, err error) {
	first, members, err := l.clients()
	if err != nil {
		return false, plainly(err)
	}
	ctx, cancel := context.WithTimeout(l.ctx, l.to.timeout)
	defer cancel()
	var ahead, within time.Duration
	err = l.careful(func() (err error) {
		if first == nil {
			if first, members, err = l.connect(ctx); err != nil {
				return err
			}
		}
		ahead, within, err = clockOf(ctx, first)
		return err
	})
	// The library asks one that it cannot dial ever more seldom by itself, and a cluster that has no
	// nodes for a minute not at all. New clients do not know of that.
	if first != nil && isBroken(err) {
		_, _ = first.Close(), members.Close() // nothing is open
		first, members = nil, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.redis, l.members = first, members
	if err == nil {
		l.ahead, l.within = ahead, within
	}
	return isRefusal(err), plainly(err)
}

var errTooOld = errors.New("redis is too old")

// connect makes the clients. One that is not the right one is closed.
func (l *link) connect(ctx context.Context) (first, members redis.UniversalClient, err error) {
	cluster := len(l.to.addresses) > 1
	first = l.to.client(cluster, answerTimeout)
	about, err := infoOf(ctx, first)
	if err == nil && !cluster && about["redis_mode"] == "cluster" {
		_ = first.Close()
		cluster = true
		first = l.to.client(cluster, answerTimeout)
	}
	if err == nil {
		err = checkVersion(about["redis_version"])
	}
	if err == nil {
		err = checkWritable(ctx, first, l.to.probe)
	}
	if err != nil {
		_ = first.Close()
		return nil, nil, err
	}
	return first, l.to.client(cluster, l.to.timeout), nil
}

// isRefusal reports whether an error says that Redis does not want us, and will not soon.
func isRefusal(err error) bool {
	_, answered := errors.AsType[redis.Error](err)
	return errors.Is(err, errTooOld) || answered && !isReplica(err) && !redis.IsLoadingError(err) &&
		!redis.IsClusterDownError(err) && !redis.IsTryAgainError(err) && !redis.IsMaxClientsError(err)
}

// isReplica reports whether an error is the answer of a replica, which takes no writes. Redis 6 wraps
// the answer to a script's command: "ERR Error running script (…): -READONLY You can't write …". A
// replica that has lost its primary may answer MASTERDOWN instead.
func isReplica(err error) bool {
	_, answered := errors.AsType[redis.Error](err)
	return answered && (strings.Contains(err.Error(), "READONLY ") || redis.IsMasterDownError(err))
}

// isBroken reports whether an error is neither an answer nor the want of one.
func isBroken(err error) bool {
	_, answered := errors.AsType[redis.Error](err)
	return err != nil && !answered && !isLate(err)
}

func isLate(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, redis.ErrPoolTimeout)
}

// clockOf asks for the time, and returns how far that clock is ahead of ours, and by how much
// that may be wrong: the answer was made at some time between the question and its arrival.
func clockOf(ctx context.Context, client redis.UniversalClient) (ahead, within time.Duration, err error) {
	begun := time.Now()
	theirs, err := client.Time(ctx).Result()
	within = time.Since(begun) / 2
	if err != nil {
		return 0, 0, err
	}
	return theirs.Sub(begun.Add(within)), within, nil
}

// infoOf returns what Redis says of itself: nothing if the user may not ask for that.
func infoOf(ctx context.Context, client redis.UniversalClient) (about map[string]string, err error) {
	text, err := client.Info(ctx, "server").Result()
	if _, answered := errors.AsType[redis.Error](err); answered && redis.IsPermissionError(err) {
		return nil, nil //nolint:nilnil // nothing is said
	}
	about = make(map[string]string)
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		about[name] = value
	}
	return about, err
}

// checkVersion returns an error if Redis is too old. One that does not say its version is
// trusted to be good.
func checkVersion(version string) error {
	major, _, _ := strings.Cut(version, ".")
	if n, err := strconv.Atoi(major); err == nil && n < oldest {
		return fmt.Errorf("%w: it is %s, and %d or later is needed", errTooOld, version, oldest)
	}
	return nil
}

// checkWritable returns an error if Redis is a replica, which takes no writes. It finds that out by
// deleting a key that is never there. Other refusals concern what is saved, and are met there.
func checkWritable(ctx context.Context, client redis.UniversalClient, probe string) error {
	err := client.Del(ctx, probe).Err()
	if _, answered := errors.AsType[redis.Error](err); answered && !isReplica(err) {
		return nil
	}
	return err
}

// plainly says what can be done about errors that operators meet.
func plainly(err error) error {
	if err == nil {
		return nil
	}
	if isLate(err) {
		return fmt.Errorf("redis does not answer in time: %w", err)
	}
	if isReplica(err) {
		return fmt.Errorf("redis is a read-only replica, and its name is asked for again until it leads to the primary; if it never does, correct the URL: %w", err)
	}
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("redis has closed the connection: %w", err)
	}
	for _, known := range []struct{ sign, words string }{
		{"WRONGPASS", "redis refuses the username or the password"},
		{"DENIED Redis is running in protected mode", "redis has no password, so it takes clients of its own machine only"},
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
