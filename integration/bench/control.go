package main

import (
	"errors"
	"fmt"
	"io"
	"net/rpc"
	"net/rpc/jsonrpc"
	"os"
	"runtime/debug"
	"runtime/metrics"
)

// serveControl lets the parent call a service's methods over standard input and
// output, until the parent closes them or is gone.
func serveControl(service any) error {
	server := rpc.NewServer()
	if err := server.RegisterName("Bench", service); err != nil {
		return fmt.Errorf("registering service: %w", err)
	}
	server.ServeCodec(jsonrpc.NewServerCodec(pipes{os.Stdin, os.Stdout}))
	return nil
}

// pipes is a connection of two pipes.
type pipes struct {
	io.ReadCloser
	io.WriteCloser
}

// Close implements [io.Closer].
func (p pipes) Close() error { return errors.Join(p.ReadCloser.Close(), p.WriteCloser.Close()) }

// Server is what a server's process tells. Its methods are called by
// [net/rpc].
type Server struct {
	// requests counts MCP requests; nil if nobody does.
	requests func() uint64
}

// Stats is what a server's process has done so far.
type Stats struct {
	// Mallocs is how many objects have been allocated on the heap.
	Mallocs uint64
	// Live is how many bytes the objects on the heap have.
	Live uint64
	// Requests is how many MCP requests have come.
	Requests uint64
}

// Stats returns what the process has done so far. Once it answers, the server
// is there.
func (s *Server) Stats(_ struct{}, stats *Stats) error {
	samples := []metrics.Sample{
		{Name: "/gc/heap/allocs:objects"}, {Name: "/gc/heap/tiny/allocs:objects"},
		{Name: "/memory/classes/heap/objects:bytes"},
	}
	metrics.Read(samples)
	stats.Mallocs = samples[0].Value.Uint64() + samples[1].Value.Uint64()
	stats.Live = samples[2].Value.Uint64()
	if s.requests != nil {
		stats.Requests = s.requests()
	}
	return nil
}

// Collect frees all memory that can be.
func (s *Server) Collect(_, _ *struct{}) error {
	debug.FreeOSMemory()
	return nil
}
