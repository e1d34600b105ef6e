package mcpcache

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

func init() {
	caddy.RegisterModule(adminAPI{})
}

// adminAPI serves the state of the live handlers below Caddy's admin endpoint:
//
//	GET  /mcp_cache/                         every handler
//	GET  /mcp_cache/{name}                   one of them; 503 until it is ready
//	GET  /mcp_cache/{name}/{kind}?like=GLOB  the items of a list
//	GET  /mcp_cache/{name}/{kind}/{item}     one item, as the upstream wrote it
//	POST /mcp_cache/{name}/refresh?kind=K    fetch now; answers with what changed
//	POST /mcp_cache/{name}/purge             forget partitions and admissions
//
// It holds nothing of any configuration, so it is right after every reload,
// also after a rejected one.
type adminAPI struct{}

// CaddyModule returns the Caddy module information.
func (adminAPI) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "admin.api.mcp_cache", New: func() caddy.Module { return new(adminAPI) }}
}

// Routes implements [caddy.AdminRouter].
func (a adminAPI) Routes() []caddy.AdminRoute {
	route := func(pattern string, f func(w http.ResponseWriter, r *http.Request) error) caddy.AdminRoute {
		return caddy.AdminRoute{Pattern: pattern, Handler: caddy.AdminHandlerFunc(f)}
	}
	return []caddy.AdminRoute{
		route("/mcp_cache/", a.serve),
	}
}

// maxRefreshWait is how long a refresh that somebody asked for may take.
const maxRefreshWait = 2 * time.Minute

// serve finds the route by hand: an item may be a URI with slashes in it, and
// what does not exist has to be answered as Caddy's admin errors are.
func (a adminAPI) serve(w http.ResponseWriter, r *http.Request) error {
	rest := strings.TrimPrefix(r.URL.EscapedPath(), "/mcp_cache/")
	if rest == "" {
		if err := allow(r, http.MethodGet); err != nil {
			return err
		}
		return writeJSON(w, http.StatusOK, a.all())
	}
	parts := strings.SplitN(rest, "/", 3)
	for i, part := range parts {
		unescaped, err := url.PathUnescape(part)
		if err != nil {
			return apiError(http.StatusBadRequest, fmt.Errorf("reading the path: %w", err))
		}
		parts[i] = unescaped
	}
	h, err := find(parts[0])
	if err != nil {
		return err
	}
	switch {
	case len(parts) == 1:
		return a.one(w, r, h)
	case len(parts) == 2 && parts[1] == "refresh":
		return a.refresh(w, r, h)
	case len(parts) == 2 && parts[1] == "purge":
		return a.purge(w, r, h)
	}
	if err := allow(r, http.MethodGet); err != nil {
		return err
	}
	k, err := kindNamed(parts[1])
	if err != nil {
		return err
	}
	if len(parts) == 2 {
		return a.list(w, r, h, k)
	}
	return a.item(w, h, k, parts[2])
}

// find returns the handler of that name.
func find(name string) (*Handler, error) {
	handlers := live.named(name)
	switch len(handlers) {
	case 0:
		return nil, apiError(http.StatusNotFound,
			fmt.Errorf("no handler is called %q; there are: %s", name, strings.Join(live.names(), ", ")))
	case 1:
		return handlers[0], nil
	}
	return nil, apiError(http.StatusConflict,
		fmt.Errorf("%d handlers are called %q; give them different names", len(handlers), name))
}

func kindNamed(name string) (revision.Kind, error) {
	k, ok := revision.ParseKind(name)
	if !ok {
		return 0, apiError(http.StatusNotFound, fmt.Errorf("%q is not one of %s", name, kindNames()))
	}
	return k, nil
}

func (adminAPI) all() []handlerStatus {
	statuses := []handlerStatus{}
	for _, name := range live.names() {
		for _, h := range live.named(name) {
			statuses = append(statuses, h.describe(time.Now()))
		}
	}
	return statuses
}

func (adminAPI) one(w http.ResponseWriter, r *http.Request, h *Handler) error {
	if err := allow(r, http.MethodGet); err != nil {
		return err
	}
	status := h.describe(time.Now())
	code := http.StatusOK
	if !status.Ready {
		code = http.StatusServiceUnavailable
	}
	return writeJSON(w, code, status)
}

func (adminAPI) list(w http.ResponseWriter, r *http.Request, h *Handler, k revision.Kind) error {
	like := r.URL.Query().Get("like")
	if _, err := matches(like, ""); err != nil {
		return apiError(http.StatusBadRequest, fmt.Errorf("like: %q is not a pattern: %w", like, err))
	}
	items, err := h.items(k)
	if err != nil {
		return err
	}
	listed := []itemSummary{}
	for _, item := range items {
		matched, _ := matches(like, item.name)
		if like == "" || matched {
			listed = append(listed, item.summary())
		}
	}
	return writeJSON(w, http.StatusOK, listed)
}

// matches reports whether a name matches a pattern of [path.Match]. Names are
// no paths, although URIs look like some: '*' and '?' match slashes too.
func matches(pattern, name string) (bool, error) {
	flat := func(s string) string { return strings.ReplaceAll(s, "/", "\x00") }
	return path.Match(flat(pattern), flat(name))
}

func (adminAPI) item(w http.ResponseWriter, h *Handler, k revision.Kind, name string) error {
	items, err := h.items(k)
	if err != nil {
		return err
	}
	for _, item := range items {
		if item.name == name {
			w.Header().Set("Content-Type", "application/json")
			_, err := w.Write(item.raw)
			return err
		}
	}
	return apiError(http.StatusNotFound, fmt.Errorf("no item of %s is called %q", k, name))
}

func (adminAPI) refresh(w http.ResponseWriter, r *http.Request, h *Handler) error {
	if err := allow(r, http.MethodPost); err != nil {
		return err
	}
	kinds := revision.Kinds()
	if name := r.URL.Query().Get("kind"); name != "" {
		k, err := kindNamed(name)
		if err != nil {
			return err
		}
		kinds = []revision.Kind{k}
	}
	ctx, cancel := context.WithTimeout(r.Context(), maxRefreshWait)
	defer cancel()
	results := h.refresh(ctx, kinds)
	if len(results) == 0 {
		return apiError(http.StatusServiceUnavailable, errors.New("no feed is connected that keeps what was asked for"))
	}
	return writeJSON(w, http.StatusOK, results)
}

func (adminAPI) purge(w http.ResponseWriter, r *http.Request, h *Handler) error {
	if err := allow(r, http.MethodPost); err != nil {
		return err
	}
	h.shared.cache.Purge()
	h.shared.admission.Purge()
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func allow(r *http.Request, method string) error {
	if r.Method == method {
		return nil
	}
	return apiError(http.StatusMethodNotAllowed, fmt.Errorf("method %s is not allowed here, only %s", r.Method, method))
}

func apiError(status int, err error) error { return caddy.APIError{HTTPStatus: status, Err: err} }

func writeJSON(w http.ResponseWriter, status int, value any) error {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	return json.NewEncoder(w).Encode(value)
}

// Interface guards
var _ caddy.AdminRouter = (*adminAPI)(nil)
