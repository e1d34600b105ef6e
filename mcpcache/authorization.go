package mcpcache

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/caddy-mcp/mcp-cache/mcpcache/guards"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/toolkit"
)

// The values of the option authorization.
const (
	Off     = "off"
	Forward = "forward"
	ByGuard = "guard"
	From    = "from"
)

// Modes are the values of the option authorization.
var Modes = []string{Off, Forward, ByGuard, From}

// CheckAuthorization returns an error if a caller's requests cannot carry that.
func CheckAuthorization(a Authorization) error {
	mode := cmp.Or(a.Mode, Off)
	switch {
	case !slices.Contains(Modes, mode):
		return fmt.Errorf("authorization: %q is not one of %s", mode, strings.Join(Modes, ", "))
	case mode != From && a.Header != "":
		return fmt.Errorf("authorization: %s takes no header", mode)
	case mode != From:
		return nil
	case http.CanonicalHeaderKey(a.Header) == "Authorization":
		return errors.New("authorization: from Authorization is what forward does: say that")
	}
	return checkHeader("authorization: from", a.Header)
}

// CheckHeaders returns an error if those headers of a caller cannot be passed on.
func CheckHeaders(names []string) error {
	for i, name := range names {
		if http.CanonicalHeaderKey(name) == "Authorization" {
			return errors.New("headers: Authorization is passed on by authorization forward")
		}
		if err := checkHeader("headers:", name); err != nil {
			return err
		}
		if slices.ContainsFunc(names[:i], func(other string) bool { return strings.EqualFold(other, name) }) {
			return fmt.Errorf("headers: %s is named twice", http.CanonicalHeaderKey(name))
		}
	}
	return nil
}

func checkHeader(option, name string) error {
	canonical := http.CanonicalHeaderKey(name)
	switch {
	case !httpguts.ValidHeaderFieldName(name), strings.Contains(name, "*"):
		return fmt.Errorf("%s %q is not the name of a header", option, name)
	case toolkit.Passes(canonical):
		return fmt.Errorf("%s %s tells no caller from another, and every server is sent it anyway", option, canonical)
	case !toolkit.MayPass(canonical):
		return fmt.Errorf("%s %s is not the caller's to say: it is about the message, the connection or the session with this endpoint", option, canonical)
	}
	return nil
}

func (s *Server) authorization() Authorization {
	if s.Authorization == nil {
		return Authorization{Mode: Off}
	}
	return Authorization{cmp.Or(s.Authorization.Mode, Off), s.Authorization.Header}
}

// carries returns the parts of a caller's request that the server receives. guard is the server's.
func (s *Server) carries(guard guards.Guard) toolkit.Credentials {
	c := toolkit.Credentials{}
	for _, name := range s.Headers {
		c.Headers = append(c.Headers, http.CanonicalHeaderKey(name))
	}
	switch a := s.authorization(); a.Mode {
	case Forward:
		c.From = "Authorization"
	case From:
		c.From = http.CanonicalHeaderKey(a.Header)
	case ByGuard:
		c.Guard = guard
	}
	return c
}

// knowsCallers reports whether a server is sent something by which it may know a caller.
func (s *Server) knowsCallers() bool {
	mode := s.authorization().Mode
	return mode == Forward || mode == From || len(s.Headers) > 0
}

// checkCredentials returns an error if what callers' requests carry to a server does not go
// together.
func (s *Server) checkCredentials() error {
	if err := CheckAuthorization(s.authorization()); err != nil {
		return err
	}
	if err := CheckHeaders(s.Headers); err != nil {
		return err
	}
	switch mode, guarded := s.authorization().Mode, s.GuardRaw != nil; {
	case mode == ByGuard && !guarded:
		return errors.New("authorization guard: the server has no guard; give it one, or another authorization")
	case mode == Off && guarded && len(s.Headers) == 0:
		return errors.New("guard: its credential would fetch lists, and no caller's request would carry one; " +
			"say authorization guard for all callers to act as that account, or authorization forward or from for each to act for itself")
	}
	return nil
}

// CheckDoor returns which server of a toolkit is the door, "" for none, or an error if it is not
// clear who is let in. e are the options of the endpoint in front of the servers.
func (t *ToolkitOptions) CheckDoor(e *EndpointOptions) (string, error) {
	var forwards, knowing []string
	guarded := ""
	for _, s := range t.Servers {
		if s.knowsCallers() {
			knowing = append(knowing, s.Name)
		}
		if s.authorization().Mode == Forward {
			forwards = append(forwards, s.Name)
		}
		if s.GuardRaw != nil {
			guarded = cmp.Or(guarded, s.Name)
		}
	}
	all := e.Admit == admitAll
	switch {
	case t.Door != "" && all:
		return "", errors.New("door: with admit all, handlers in front let callers in; leave one of the two out")
	case t.Door != "" && !slices.ContainsFunc(t.Servers, func(s *Server) bool { return s.Name == t.Door }):
		return "", fmt.Errorf("door: no server is called %q", t.Door)
	case t.Door != "" && !slices.Contains(knowing, t.Door):
		return "", fmt.Errorf("door: %s is sent nothing by which it could know a caller; give it authorization forward, or name another server", t.Door)
	case t.Door != "":
		return t.Door, nil
	case all:
		return "", nil
	case len(forwards) == 1:
		return forwards[0], nil
	case len(forwards) > 1:
		return "", fmt.Errorf("authorization forward: %s have it; say by door <server> whose login is that of the endpoint, or admit all if handlers in front let callers in",
			strings.Join(forwards, ", "))
	case guarded != "":
		return "", fmt.Errorf("server %s has a guard, so whoever gets in acts as that account or sees its lists: say who is let in, "+
			"by admit all if handlers in front do that, or by a server with authorization forward, or by door <server>", guarded)
	case len(knowing) == 0 && (e.Admit != "" || e.AdmitFor != 0):
		return "", errors.New("admit: no server is sent anything by which it could let a caller in, so there is nobody to admit; leave it out")
	}
	return "", nil
}
