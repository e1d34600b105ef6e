package redis

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/caddy-mcp/mcp-cache/mcpcache/stores"
)

// A value is a hash of the time as of which it is, in microseconds with a fixed number of
// digits, and its bytes. Its lease is a key beside it, in the same slot of a cluster.
var (
	// saveScript keeps a value unless a newer one is there, and returns 1, or 0 if there is. One
	// without a time is kept whatever is there, as is any where another program's value is. Where
	// memory is used up, Redis refuses a script's commands that need more, until one has written.
	saveScript = redis.NewScript(`
local at = redis.pcall('HGET', KEYS[1], 'at')
if type(at) == 'string' and ARGV[1] ~= '' and at > ARGV[1] then return 0 end
if type(at) == 'table' then redis.call('DEL', KEYS[1]) end
redis.call('HSET', KEYS[1], 'at', ARGV[1], 'value', ARGV[2])
redis.call('EXPIRE', KEYS[1], ARGV[3])
return 1`)
	// leaseScript takes a lease and returns 1, or 0 if another has it, or 2 if there is a newer value
	// than is known; and who the other is. Anything may have been written there by another program.
	leaseScript = redis.NewScript(`
local at = redis.pcall('HGET', KEYS[1], 'at')
if type(at) == 'string' and at > ARGV[1] then return {2, ''} end
if redis.call('SET', KEYS[2], ARGV[2], 'NX', 'PX', ARGV[3]) then return {1, ''} end
local other = redis.pcall('GET', KEYS[2])
return {0, type(other) == 'string' and string.match(string.sub(other, 1, 200), ' (.*)') or ''}`)
	// extendScript and releaseScript return 0 if the lease is not ours any more.
	extendScript = redis.NewScript(`
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])`)
	releaseScript = redis.NewScript(`
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])`)
)

// digits returns a time so that later ones are greater as text.
func digits(at time.Time) string { return fmt.Sprintf("%016d", max(at.UnixMicro(), 0)) }

// run runs a script that returns a number.
func (s *Redis) run(ctx context.Context, script *redis.Script, keys []string, args ...any) (int64, error) {
	return sendCommand(ctx, s.link, (*link).client, func(c redis.UniversalClient) (int64, error) { return script.Run(ctx, c, keys, args...).Int64() })
}

// save keeps a value as of a time, in digits.
func (s *Redis) save(ctx context.Context, key, at string, value []byte) error {
	kept, err := s.run(ctx, saveScript, []string{s.keyOf(key)}, at, value, int(expiry.Seconds()))
	if err == nil && kept == 0 {
		err = stores.ErrNewer
	}
	if err != nil {
		return fmt.Errorf("saving %s: %w", key, err)
	}
	return nil
}

// SaveAt implements [stores.Fleet].
func (s *Redis) SaveAt(ctx context.Context, key string, at time.Time, value []byte) error {
	return s.save(ctx, key, digits(at), value)
}

// Lease implements [stores.Fleet].
func (s *Redis) Lease(ctx context.Context, key, holder string, known time.Time, life time.Duration) (stores.Lease, error) {
	l := &lease{store: s, key: s.keyOf(key) + ":lease", token: rand.Text() + " " + holder}
	said, err := sendCommand(ctx, s.link, (*link).client, func(c redis.UniversalClient) ([]any, error) {
		return pair(leaseScript.Run(ctx, c, []string{s.keyOf(key), l.key}, digits(known), l.token, life.Milliseconds()))
	})
	if err == nil {
		err = refusal(said)
	}
	if err != nil {
		return nil, fmt.Errorf("taking the lease of %s: %w", key, err)
	}
	return l, nil
}

// refusal returns why leaseScript has given no lease, or nil if it has.
func refusal(said []any) error {
	holder, _ := said[1].(string)
	switch said[0] {
	case int64(1):
		return nil
	case int64(2):
		return stores.ErrNewer
	case int64(0):
		return &stores.HeldError{Holder: holder}
	}
	return fmt.Errorf("redis says %.40q of a lease", fmt.Sprint(said[0]))
}

// pair returns the two things that a script says.
func pair(answer *redis.Cmd) ([]any, error) {
	said, err := answer.Slice()
	if err == nil && len(said) != 2 {
		err = fmt.Errorf("redis says %d things, not two", len(said))
	}
	return said, err
}

// lease is a key that holds a token nobody else has, and after it the holder's name.
type lease struct {
	store      *Redis
	key, token string
}

// Extend implements [stores.Lease].
func (l *lease) Extend(ctx context.Context, life time.Duration) error {
	ours, err := l.store.run(ctx, extendScript, []string{l.key}, l.token, life.Milliseconds())
	if err == nil && ours == 0 {
		err = stores.ErrHeld
	}
	if err != nil {
		return fmt.Errorf("extending a lease: %w", err)
	}
	return nil
}

// Release implements [stores.Lease].
func (l *lease) Release(ctx context.Context) error {
	if _, err := l.store.run(ctx, releaseScript, []string{l.key}, l.token); err != nil {
		return fmt.Errorf("ending a lease: %w", err)
	}
	return nil
}
