package stdio

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/process"
)

// passed are the variables of Caddy's environment that every program gets. They are those of the
// MCP SDKs, and those of the user's language and time.
var passed = []string{"HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"}

// passedOnWindows are those of the MCP SDKs there.
var passedOnWindows = []string{
	"APPDATA", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATH", "PATHEXT", "PROCESSOR_ARCHITECTURE",
	"PROGRAMFILES", "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "USERNAME", "USERPROFILE",
}

// checkVariable returns an error if a variable cannot have that name.
func checkVariable(name string) error {
	if name == "" || strings.ContainsAny(name, "=*\x00") { // a pattern would name none
		return fmt.Errorf("%q is no name of a variable", name)
	}
	return nil
}

// isPassed reports whether a program gets a variable of Caddy's environment.
func (t *Transport) isPassed(name string) bool {
	if slices.Contains(t.PassEnv, name) {
		return true
	}
	if runtime.GOOS == "windows" {
		return slices.Contains(passedOnWindows, strings.ToUpper(name))
	}
	// A shell exports its functions as variables, too.
	return slices.Contains(passed, name) || strings.HasPrefix(name, "LC_")
}

// render returns what to run now.
func (t *Transport) render() (c process.Command, err error) {
	replacer := caddy.NewReplacer()
	text := func(what, configured string) string {
		// An unknown placeholder is text: an argument may be JSON.
		replaced, failed := replacer.ReplaceOrErr(configured, true, false)
		if failed != nil && err == nil {
			err = fmt.Errorf("%s: %w", what, failed)
		}
		return replaced
	}
	c = process.Command{Path: text("command", t.Command), Dir: text("dir", t.Dir), User: t.User}
	for _, arg := range t.Args {
		c.Args = append(c.Args, text("args", arg))
	}
	variables := make(map[string]string)
	for _, variable := range os.Environ() {
		if name, value, _ := strings.Cut(variable, "="); t.isPassed(name) {
			variables[name] = value
		}
	}
	if t.User != "" {
		found, failed := process.LookUser(t.User)
		if failed != nil {
			return c, failed
		}
		variables["HOME"], variables["USER"], variables["LOGNAME"] = found.HomeDir, found.Username, found.Username
	}
	for name, value := range t.Env {
		variables[name] = text("env "+name, value)
	}
	for name, value := range variables {
		c.Env = append(c.Env, name+"="+value)
	}
	return c, err
}
