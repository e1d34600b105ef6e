package client

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// described returns the result that opens a session, with instructions that make
// it that long.
func described(r revision.Revision, size int) string {
	frame := `{"protocolVersion":"` + r.String() + `", "n":1.0, "capabilities":{"tools":{"listChanged":true},"logging":{},` +
		`"extensions":{"io.example/ui":{}}},"serverInfo":{"name":"s","version":"1"},"instructions":"%s"}`
	if r.Era() == revision.Modern {
		frame = strings.Replace(frame, `"protocolVersion":"`+r.String()+`"`, `"supportedVersions":["1999-01-01","`+r.String()+`"]`, 1)
	}
	return fmt.Sprintf(frame, strings.Repeat("i", size-len(fmt.Sprintf(frame, ""))))
}

// What a server says of itself is kept as it was written, up to a bound. Above
// that a session opens as well, and offers what it offers.
func TestServerInfo(t *testing.T) {
	for era, r := range both {
		for _, size := range []int{1000, MaxServerInfo, MaxServerInfo + 1} {
			t.Run(fmt.Sprint(era, size), func(t *testing.T) {
				s := newServer(r)
				s.On(opening[r], gives(described(r, size)))
				run(t, r, s, func(w *world) {
					session := w.open()
					info := session.Server()
					if info.Revision != r || info.Size != size {
						t.Errorf("it is of %s, and has %d bytes", info.Revision, info.Size)
					}
					want, capabilities, versions := described(r, size), []string{"extensions", "logging", "tools"}, 2
					if size > MaxServerInfo {
						want, capabilities, versions = "", []string{"tools"}, 1
					}
					if string(info.Result) != want {
						t.Errorf("kept are %d bytes, %.100s", len(info.Result), info.Result)
					}
					if got := slices.Sorted(maps.Keys(info.Capabilities)); !slices.Equal(got, capabilities) {
						t.Errorf("the capabilities are %v, want %v", got, capabilities)
					}
					if r == modern && len(info.SupportedVersions) != versions {
						t.Errorf("the versions are %v, want %d", info.SupportedVersions, versions)
					}
					if !session.Offers(revision.Tools) || session.Offers(revision.Prompts) ||
						!session.Announces(revision.Tools) || !session.AnnouncesAny() {
						t.Error("it does not offer and announce tools alone")
					}
				})
			})
		}
	}
}

// Asking for server/discover once more brings what the server says now.
func TestServerInfoOfAList(t *testing.T) {
	s := newServer(modern)
	run(t, modern, s, func(w *world) {
		session := w.open()
		s.On("server/discover", gives(described(modern, 1000)))
		l, err := session.List(w.Context(), ListRequest{Kind: revision.Discover})
		if err != nil || l.Server == nil || string(l.Server.Result) != described(modern, 1000) {
			t.Errorf("got %+v, error %v", l, err)
		}
		if strings.Contains(string(session.Server().Result), "instructions") {
			t.Error("what opened the session has changed")
		}
		s.On("server/discover", gives(`{"capabilities":{"tools":{}}}`)) // it names no version
		if l, err = session.List(w.Context(), ListRequest{Kind: revision.Discover}); err != nil || l.Server != nil {
			t.Errorf("got %+v, error %v", l, err)
		}
		if l, err = session.List(w.Context(), ListRequest{Kind: revision.Tools}); err != nil || l.Server != nil {
			t.Errorf("a list of tools says of the server: %+v, error %v", l.Server, err)
		}
	})
}
