package redis

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/caddy-mcp/mcp-cache/mcpcache/stores"
)

// The members of a place are a hash:
//
//	run       which run of Redis has made it: another one, from a copy of it, may know less
//	sure      from when on nobody is a member who is not here, in milliseconds
//	last      the number of the last announcement; the first is the time when it was made
//	m:NAME    when the membership ends, in milliseconds, and what it has confirmed
//
// The channel of what is announced there has "a NUMBER NAME MESSAGE", "c NUMBER", which says that all have
// confirmed it, and "j", which says nothing.
const membersScript = `
local key, name, life, channel = KEYS[1], 'm:' .. ARGV[1], tonumber(ARGV[2]), ARGV[3]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local info = redis.pcall('INFO', 'server')
local run = type(info) == 'string' and string.match(info, 'run_id:(%w+)') or ''
local known = redis.call('HGET', key, 'run') == run

-- remember makes the hash, if it is not there.
local function remember()
  if not known then
    redis.call('DEL', key)
    redis.call('HSET', key, 'run', run, 'sure', now + life, 'last', time[1] .. string.format('%06d', time[2]))
  end
  redis.call('PEXPIRE', key, 60 * life)
end

-- lives returns when a membership ends and what it has confirmed, or nothing if there is none.
local function lives(member)
  if not member then return end
  local ends, heard = string.match(member, '^(%d+) (%d+)$')
  if ends and tonumber(ends) > now then return tonumber(ends), heard end
end

-- confirmed says whether all members have confirmed a number, or are none any more.
local function confirmed(number)
  if tonumber(redis.call('HGET', key, 'sure')) > now then return false end
  local all = redis.call('HGETALL', key)
  for i = 1, #all, 2 do
    if string.sub(all[i], 1, 2) == 'm:' then
      local ends, heard = lives(all[i + 1])
      if not ends then
        redis.call('HDEL', key, all[i])
      elseif tonumber(heard) < tonumber(number) then
        return false
      end
    end
  end
  return true
end

-- standing returns the number of the last announcement, and the names of all members.
local function standing()
  local said, all = {redis.call('HGET', key, 'last')}, redis.call('HGETALL', key)
  for i = 1, #all, 2 do
    if string.sub(all[i], 1, 2) == 'm:' and lives(all[i + 1]) then
      said[#said + 1] = string.sub(all[i], 3)
    end
  end
  return said
end

local function keep(ends, heard) redis.call('HSET', key, name, string.format('%d', ends) .. ' ' .. heard) end
`

var (
	// joinScript returns how the instance stands. It fails at once if the user may not publish, which
	// needs no member to notice later.
	joinScript = redis.NewScript(membersScript + `
redis.call('PUBLISH', channel, 'j')
remember()
keep(now + life, redis.call('HGET', key, 'last'))
return standing()`)
	// confirmScript has what has been heard as its argument, and returns how the instance stands, or
	// nothing if it is no member. A number that is not there yet, somebody else has written to the channel.
	confirmScript = redis.NewScript(membersScript + `
local ends, had = lives(known and redis.call('HGET', key, name))
if not ends then return {} end
remember()
local heard = ARGV[4]
if tonumber(heard) > tonumber(redis.call('HGET', key, 'last')) then heard = had end
keep(now + life, heard)
if heard ~= had and confirmed(heard) then redis.call('PUBLISH', channel, 'c ' .. heard) end
return standing()`)
	// announceScript has the message as its argument, and returns its number, and 1 if all have
	// confirmed it, or else 0.
	announceScript = redis.NewScript(membersScript + `
remember()
local before = redis.call('HGET', key, 'last')
redis.call('HINCRBY', key, 'last', 1)
local number = redis.call('HGET', key, 'last')
local ends, heard = lives(redis.call('HGET', key, name))
if heard == before then keep(ends, number) end
redis.call('PUBLISH', channel, 'a ' .. number .. ' ' .. ARGV[1] .. ' ' .. ARGV[4])
return {number, confirmed(number) and 1 or 0}`)
)

// membersOf returns the key of a place's members.
func (s *Redis) membersOf(place string) string { return s.keyOf(place + "/members") }

// channelOf returns the channel of what is announced at a place. All databases of a Redis have the same
// channels, so each but 0 has its number in the name.
func (s *Redis) channelOf(place string) string {
	channel := s.membersOf(place)
	if database := s.link.to.database; database != 0 {
		channel += ":" + strconv.Itoa(database)
	}
	return channel
}

// membersRun runs one of those scripts.
func (s *Redis) membersRun(ctx context.Context, c redis.UniversalClient, script *redis.Script, place, member string, life time.Duration, args ...any) *redis.Cmd {
	return script.Run(ctx, c, []string{s.membersOf(place)}, append([]any{member, life.Milliseconds(), s.channelOf(place)}, args...)...)
}

// Join implements [stores.Members].
func (s *Redis) Join(ctx context.Context, place, member string, life time.Duration) (stores.Standing, error) {
	said, err := sendCommand(ctx, s.link, (*link).membersClient, func(c redis.UniversalClient) ([]string, error) {
		return s.membersRun(ctx, c, joinScript, place, member, life).StringSlice()
	})
	if err != nil {
		return stores.Standing{}, fmt.Errorf("joining: %w", err)
	}
	return standing(said)
}

// Confirm implements [stores.Members].
func (s *Redis) Confirm(ctx context.Context, place, member string, heard uint64, life time.Duration) (stores.Standing, error) {
	said, err := sendCommand(ctx, s.link, (*link).membersClient, func(c redis.UniversalClient) ([]string, error) {
		return s.membersRun(ctx, c, confirmScript, place, member, life, heard).StringSlice()
	})
	if err != nil {
		return stores.Standing{}, fmt.Errorf("confirming: %w", err)
	}
	return standing(said)
}

// standing reads what a script has said of how an instance stands: nothing, if it is no member.
func standing(said []string) (s stores.Standing, err error) {
	if len(said) == 0 {
		return s, stores.ErrNoMember
	}
	s.Members = said[1:]
	s.Last, err = strconv.ParseUint(said[0], 10, 64)
	return s, err
}

// Announce implements [stores.Members].
func (s *Redis) Announce(ctx context.Context, place, member string, message []byte, life time.Duration) (number uint64, confirmed bool, err error) {
	said, err := sendCommand(ctx, s.link, (*link).membersClient, func(c redis.UniversalClient) ([]any, error) {
		return pair(s.membersRun(ctx, c, announceScript, place, member, life, message))
	})
	if err == nil {
		number, err = strconv.ParseUint(fmt.Sprint(said[0]), 10, 64)
	}
	if err != nil {
		return 0, false, fmt.Errorf("announcing: %w", err)
	}
	return number, said[1] == int64(1), nil
}

// Leave implements [stores.Members].
func (s *Redis) Leave(ctx context.Context, place, member string) error {
	_, err := sendCommand(ctx, s.link, (*link).membersClient, func(c redis.UniversalClient) (int64, error) {
		return c.HDel(ctx, s.membersOf(place), "m:"+member).Result()
	})
	if err != nil {
		return fmt.Errorf("leaving: %w", err)
	}
	return nil
}

// Listen implements [stores.Members].
func (s *Redis) Listen(ctx context.Context, place string, listening func(), hear func(stores.Announcement)) error {
	client, err := s.link.membersClient(ctx)
	if err != nil {
		return err
	}
	l := &subscription{link: s.link, pubsub: client.Subscribe(ctx), listening: listening, hear: hear}
	if err = l.run(ctx, s.channelOf(place)); ctx.Err() == nil {
		return fmt.Errorf("listening: %w", inWords(err))
	}
	return ctx.Err()
}

// parseAnnouncement reads what the scripts publish. Others may write there, too: a text that is too long is
// not copied.
func parseAnnouncement(text string) (a stores.Announcement, ok bool) {
	what, rest, _ := strings.Cut(text, " ")
	digits, rest, _ := strings.Cut(rest, " ")
	number, err := strconv.ParseUint(digits, 10, 64)
	if err != nil {
		return a, false
	}
	a.Number = number
	switch what {
	case "c":
		a.Confirmed = true
	case "a":
		var message string
		a.Member, message, ok = strings.Cut(rest, " ")
		if len(message) <= stores.MaxMessage {
			a.Message = []byte(message)
		}
		return a, ok
	default:
		return a, false
	}
	return a, true
}
