package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// UnsupportedError says that the upstream does not speak a revision, by a definite
// answer of it: a timeout, a refused connection, a 401 or a 5xx says nothing about
// revisions.
type UnsupportedError struct {
	// Wanted is that revision.
	Wanted revision.Revision
	// Offered is the revision that the upstream proposed instead, if known.
	Offered revision.Revision
	// said are the versions that the upstream named instead.
	said  []string
	cause error
}

func (e *UnsupportedError) Error() string {
	text := "upstream does not speak revision " + e.Wanted.String()
	if len(e.said) > 0 {
		said := strings.Join(e.said, ", ")
		text += fmt.Sprintf(" but %.100q", said)
		if !slices.ContainsFunc(e.said, func(v string) bool { return revision.Parse(v) != revision.Unknown }) {
			text += ", of which lists are not kept"
		}
	}
	if e.cause != nil {
		text += fmt.Sprintf(": %v", e.cause)
	}
	return text
}

func (e *UnsupportedError) Unwrap() error { return e.cause }

// InitializeTimeout is how long the answer to initialize may take. Some bridges start a
// program for each session, and another one for each further try, and the request cannot
// be cancelled. It is as long as clients made with the TypeScript SDK wait.
const InitializeTimeout = time.Minute

// Open opens the session at its revision and no other.
func (s *Session) Open(ctx context.Context) error {
	open, timeout := s.discover, RequestTimeout
	if s.client.Revision.Era() == revision.Legacy {
		open, timeout = s.initialize, InitializeTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := s.transport.Start(ctx); err != nil {
		return fmt.Errorf("starting the transport: %w", err)
	}
	return open(ctx)
}

// Assume opens a modern session without asking: the server is known to speak its revision.
func (s *Session) Assume(ctx context.Context) error {
	s.transport.SetProtocolVersion(s.client.Revision.String())
	if err := s.transport.Start(ctx); err != nil {
		return fmt.Errorf("starting the transport: %w", err)
	}
	return nil
}

// discover asks a server which modern revisions it speaks. That it answers is not
// enough: some servers with sessions do so too, and list only legacy revisions.
func (s *Session) discover(ctx context.Context) error {
	s.transport.SetProtocolVersion(s.client.Revision.String())
	result, err := s.call(ctx, revision.Discover.Method(), map[string]any{}, nil)
	if err != nil {
		return s.openError(err)
	}
	if err := s.describe(result); err != nil {
		return fmt.Errorf("reading the answer to server/discover: %w", err)
	}
	if !slices.Contains(s.info.SupportedVersions, s.client.Revision.String()) {
		return &UnsupportedError{Wanted: s.client.Revision, Offered: newest(s.info.SupportedVersions), said: s.info.SupportedVersions}
	}
	return nil
}

// initialize opens a legacy session.
func (s *Session) initialize(ctx context.Context) error {
	client := s.as.orOwn()
	result, err := s.call(ctx, string(mcp.MethodInitialize), map[string]any{
		"protocolVersion": s.client.Revision.String(),
		"capabilities":    json.RawMessage(client.Capabilities),
		"clientInfo":      s.clientInfo(client.Name, client.Version),
	}, s.as)
	if err != nil {
		return s.openError(err)
	}
	if err := s.describe(result); err != nil {
		return fmt.Errorf("reading the answer to initialize: %w", err)
	}
	if s.info.ProtocolVersion != s.client.Revision.String() {
		version := s.info.ProtocolVersion
		return &UnsupportedError{Wanted: s.client.Revision, Offered: revision.Parse(version), said: []string{version}}
	}
	s.transport.SetProtocolVersion(s.client.Revision.String())
	return s.notify(ctx, "notifications/initialized", nil)
}

// describe keeps what the server has said of itself.
func (s *Session) describe(result []byte) error {
	info, err := parseServerInfo(s.client.Revision, result)
	if err == nil {
		s.info = info
	}
	return err
}

// openError makes an [UnsupportedError] of an error that shows that the server does not
// speak the revision.
func (s *Session) openError(err error) error {
	if rpc, ok := errors.AsType[*message.Error](err); ok {
		return &UnsupportedError{Wanted: s.client.Revision, Offered: newest(rpc.Supported), said: rpc.Supported, cause: err}
	}
	status, ok := errors.AsType[*StatusError](err)
	if !ok || !DefiniteRefusal(status.Status) {
		return err
	}
	return &UnsupportedError{Wanted: s.client.Revision, Offered: newest(status.Supported), said: status.Supported, cause: err}
}

// DefiniteRefusal reports whether an HTTP status refuses a request for what it asks, not
// for who sent it, when or to which Host, and not by a failure that may be temporary.
func DefiniteRefusal(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusRequestTimeout,
		http.StatusTooEarly, http.StatusTooManyRequests, http.StatusMisdirectedRequest:
		return false
	}
	return status >= 400 && status <= 499
}

// newest returns the newest known legacy revision of the list. A modern one need not be
// offered: its feed runs anyway.
func newest(versions []string) revision.Revision {
	var best revision.Revision
	for _, version := range versions {
		if r := revision.Parse(version); r.Era() == revision.Legacy && r > best {
			best = r
		}
	}
	return best
}
