package mcpcache

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// valuesOf returns a value in JSON for each option of a struct.
func valuesOf(t *testing.T, options any) map[string]string {
	t.Helper()
	values := make(map[string]string)
	for _, field := range reflect.VisibleFields(reflect.TypeOf(options)) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" {
			continue
		}
		is := field.Type
		if is.Kind() == reflect.Pointer {
			is = is.Elem()
		}
		switch {
		case is == reflect.TypeFor[json.RawMessage]():
			values[name] = `{"handler":"mcp_cache_stand"}`
		case is.Kind() == reflect.Slice && is.Elem().Kind() == reflect.String:
			values[name] = `["x"]`
		case is.Kind() == reflect.Slice:
			values[name] = "[null]"
		case is.Kind() == reflect.Map:
			values[name] = `{"tools":1}`
		case is.Kind() == reflect.String:
			values[name] = `"x"`
		case is.Kind() == reflect.Bool:
			values[name] = "true"
		default:
			values[name] = "1"
		}
	}
	if len(values) < 4 {
		t.Fatalf("%T has the options %v", options, values)
	}
	return values
}

// TestOptionsOutOfPlace gives each option to a handler that has nothing to do with it: none is
// ignored.
func TestOptionsOutOfPlace(t *testing.T) {
	one := []string{serverNamed("one")}
	wantRefused := func(option, config, want string) {
		t.Helper()
		l, err := provision(t, config)
		if err == nil {
			l.cancel()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", option, err, want)
		}
	}
	for option, value := range valuesOf(t, ServerOptions{}) {
		if option == "upstream" { // an error of its own: a handler has one of the two
			continue
		}
		wantRefused(option, toolkitNamed("tk", one, option, value), option+": it is an option of a server")
	}
	for option, value := range valuesOf(t, OneServerOptions{}) {
		wantRefused(option, toolkitNamed("tk", one, option, value), option+": not yet in a toolkit")
	}
	for option, value := range valuesOf(t, ToolkitOptions{}) {
		if option == "servers" {
			continue
		}
		wantRefused(option, config("alone", option, value), option+": only with several servers")
	}
	for _, options := range []any{EndpointOptions{}, OneServerOptions{}, ToolkitOptions{}} {
		for option, value := range valuesOf(t, options) {
			wantRefused(option+" of a server", toolkitNamed("tk", []string{serverNamed("one", option, value)}),
				fmt.Sprintf("server one: %s: not an option of a server of a toolkit", option))
		}
	}
	wantRefused("an unknown option of a server", toolkitNamed("tk", []string{serverNamed("one", "memroy", "1")}), `server one: json: unknown field "memroy"`)
	wantRefused("a server of no name", toolkitNamed("tk", []string{serverNamed("one", "name", "5")}), "server: json: cannot unmarshal number")
}
