package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

const (
	// partitions is how many callers have a list of their own.
	partitions = 10_000
	// fillTimeout is how long it may take until all have it.
	fillTimeout = 5 * time.Minute
	// asked is how many of the first and of the last callers are asked for
	// again.
	asked = 100
)

// callerKinds are the lists of callers that are measured, with the goals.
var callerKinds = []struct {
	name, what string
	bound      float64 // MiB above idle
	whole      bool    // whether all lists must be kept
}{
	{sameLists, "the same list", 20, true},
	{sharedTools, "different lists made of 2,000 tools in all", 60, true},
	{differentLists, "different lists of different tools, `memory 64MiB`", 64 * 1.2, false},
}

// memoryResult is what the lists of all callers need.
type memoryResult struct {
	what string
	// live and resident are bytes above those of an idle server: of objects on
	// the heap, and of the process. Resident is negative if the system does not
	// tell.
	live, resident int64
	// kept is which part of the callers that were asked for again had a hit.
	kept float64
}

// measureMemory measures what lists of many callers need.
func (b *bench) measureMemory(ctx context.Context) ([]memoryResult, error) {
	var all []memoryResult
	for _, kind := range callerKinds {
		b.say("memory, " + kind.what)
		result, err := b.fill(ctx, kind.name)
		if err != nil {
			return nil, fmt.Errorf("measuring %s, %s: %w", nameMemory, kind.what, err)
		}
		result.what = kind.what
		all = append(all, result)
	}
	return all, nil
}

// fill has all callers ask for their lists, of one kind.
func (b *bench) fill(ctx context.Context, kind string) (memoryResult, error) {
	var result memoryResult
	server, upstream, err := b.memoryServers(ctx, kind)
	if err != nil {
		return result, err
	}
	defer server.stop()
	defer upstream.stop()
	anonymous := caller{revision: modern}.request(server.addr, "tools/list", "", "")
	if a, err := await(ctx, server.addr, anonymous, settleTimeout, isHit("")); err != nil || !isHit("")(a) {
		return result, fmt.Errorf("awaiting a hit: %w", err)
	}
	idle, err := b.memoryOf(ctx, server)
	if err != nil {
		return result, err
	}
	job := LoadJob{
		Addr: server.addr, Request: callerRequest(server.addr), Connections: 1, Duration: fillTimeout, Requests: partitions,
	}
	var filled LoadResult
	if err := b.load.call(ctx, fillTimeout+requestTimeout, "Run", job, &filled); err != nil {
		return result, err
	}
	full, err := b.memoryOf(ctx, server)
	if err != nil {
		return result, err
	}
	result.live, result.resident = full.live-idle.live, full.resident-idle.resident
	result.kept, err = b.kept(ctx, server.addr)
	return result, err
}

// memoryServers starts a Caddy and an upstream for one kind of lists.
func (b *bench) memoryServers(ctx context.Context, kind string) (server, upstream *process, err error) {
	upstream, addr, err := b.server(ctx, "upstream of "+kind, "upstream", b.cores.upstream)
	if err != nil {
		return nil, nil, err
	}
	// Before the feed asks: what it has been told anybody may have, all get.
	if err := upstream.call(ctx, startTimeout, "Callers", kind, &struct{}{}); err != nil {
		return nil, nil, err
	}
	server, _, err = b.once("caddy of "+kind, func(own string) (*process, error) {
		file := filepath.Join(b.folder, kind)
		config := caddyfile(file+".storage", []site{{own, "mcp_cache http://" + addr + "/mcp {\n\tmemory 64MiB\n}"}}, "")
		if err := os.WriteFile(file, config, 0o600); err != nil {
			return nil, fmt.Errorf("writing Caddyfile: %w", err)
		}
		return start(ctx, b.cores.server, "caddy", file)
	})
	return server, upstream, err
}

// callerRequest returns a request whose credential is counted up instead of its
// id.
func callerRequest(addr string) Request {
	const place = "Authorization: Bearer "
	r := caller{revision: modern}.request(addr, "tools/list", "", "", place+firstID)
	r.ID = indexAfter(r.Raw, place)
	return r
}

// memoryState is what a process needs.
type memoryState struct{ live, resident int64 }

// memoryOf collects garbage, and returns what is left.
func (b *bench) memoryOf(ctx context.Context, p *process) (memoryState, error) {
	if err := p.call(ctx, startTimeout, "Collect", struct{}{}, &struct{}{}); err != nil {
		return memoryState{}, err
	}
	stats, err := p.stats(ctx)
	if err != nil {
		return memoryState{}, err
	}
	m := memoryState{live: int64(stats.Live)}
	if b.options.linux {
		m.resident, err = residentMemory(p.pid())
	}
	return m, err
}

// kept asks for lists of the first and of the last callers again.
func (b *bench) kept(ctx context.Context, addr string) (float64, error) {
	hits := 0
	for i := range 2 * asked {
		number := i
		if i >= asked {
			number = partitions - 2*asked + i
		}
		r := callerRequest(addr).clone(0)
		for range number {
			r.next()
		}
		a, err := ask(ctx, addr, r)
		if err != nil {
			return 0, err
		}
		if a.isHit() {
			hits++
		}
	}
	return divide(float64(hits), 2*asked), nil
}

func memoryTable(all []memoryResult) *table {
	t := &table{header: []string{"", "MiB of live objects above idle", "MiB in memory above idle", "kept"}}
	for _, m := range all {
		t.add(m.what, show(mebibytes(m.live), 1), show(mebibytes(m.resident), 1), show(100*m.kept, 0)+" %")
	}
	return t
}

func mebibytes(n int64) float64 { return float64(n) / (1 << 20) }
