// Package admin has the routes below /mcp_cache/ of Caddy's admin API. Operators use them to look
// at the live handlers, and to have the handlers fetch or forget lists.
//
// It knows HTTP and the package report, and nothing of the handlers themselves.
package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/report"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

func init() {
	caddy.RegisterModule(API{})
}

// API serves the state of the live handlers below Caddy's admin endpoint:
//
//	GET  /mcp_cache/                         every handler
//	GET  /mcp_cache/{name}                   one of them; 503 until it is ready. Below, {name}
//	                                         is also {name}/{server}, of a toolkit
//	GET  /mcp_cache/{name}/{kind}?like=GLOB  the items of a list; with as=KEY=VALUE,
//	                                         once or more, as such a caller is shown
//	                                         them; with why=1 also what is hidden, and
//	                                         which rule decides about each
//	GET  /mcp_cache/{name}/{kind}/{item}     one item, as the upstream wrote it
//	POST /mcp_cache/{name}/refresh?kind=K    fetch now; answers with what changed
//	POST /mcp_cache/{name}/purge             forget partitions and admissions
//	POST /mcp_cache/{name}/restart           stop the processes of a program; answers with
//	                                         how many there were
//
// It holds nothing of any configuration, so it is right after every reload,
// also after a rejected one.
type API struct{}

// CaddyModule returns the Caddy module information.
func (API) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "admin.api.mcp_cache", New: func() caddy.Module { return new(API) }}
}

// Routes implements [caddy.AdminRouter].
func (a API) Routes() []caddy.AdminRoute {
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
func (a API) serve(w http.ResponseWriter, r *http.Request) error {
	rest := strings.TrimPrefix(r.URL.EscapedPath(), "/mcp_cache/")
	if rest == "" {
		if err := allow(r, http.MethodGet); err != nil {
			return err
		}
		return writeJSON(w, http.StatusOK, report.Live.Statuses(time.Now()))
	}
	parts, err := split(rest)
	if err != nil {
		return apiError(http.StatusBadRequest, fmt.Errorf("reading the path: %w", err))
	}
	source, err := report.Live.Find(parts[0])
	if err != nil {
		return refused(err)
	}
	switch {
	case len(parts) == 1:
		return a.one(w, r, source)
	case len(parts) == 2 && parts[1] == "refresh":
		return a.refresh(w, r, source)
	case len(parts) == 2 && parts[1] == "purge":
		return a.purge(w, r, source)
	case len(parts) == 2 && parts[1] == "restart":
		return a.restart(w, r, source)
	}
	if err := allow(r, http.MethodGet); err != nil {
		return err
	}
	k, err := report.ListKind(parts[1])
	if err != nil {
		return refused(err)
	}
	if len(parts) == 2 {
		return a.list(w, r, source, k)
	}
	return a.item(w, source, k, parts[2])
}

// split returns the parts of a path: the name of a handler, or of one of the servers of a
// toolkit, and what may follow, a kind and an item. They are unescaped.
func split(path string) ([]string, error) {
	parts := strings.SplitN(path, "/", 4)
	for i, part := range parts {
		unescaped, err := url.PathUnescape(part)
		if err != nil {
			return nil, err
		}
		parts[i] = unescaped
	}
	if len(parts) > 1 {
		if server := parts[0] + "/" + parts[1]; len(report.Live.Named(server)) > 0 {
			return append([]string{server}, parts[2:]...), nil
		}
	}
	if len(parts) > 3 {
		parts = append(parts[:2], parts[2]+"/"+parts[3])
	}
	return parts, nil
}

func (API) one(w http.ResponseWriter, r *http.Request, s report.Source) error {
	if err := allow(r, http.MethodGet); err != nil {
		return err
	}
	status := report.Describe(s, time.Now())
	code := http.StatusOK
	if !status.Ready {
		code = http.StatusServiceUnavailable
	}
	return writeJSON(w, code, status)
}

func (API) list(w http.ResponseWriter, r *http.Request, s report.Source, k revision.Kind) error {
	items, err := items(r, s, k)
	if err != nil {
		return refused(err)
	}
	listed := make([]report.Summary, len(items))
	for i, item := range items {
		listed[i] = item.Summary()
	}
	return writeJSON(w, http.StatusOK, listed)
}

// items returns the items that the query of a request asks for.
func items(r *http.Request, s report.Source, k revision.Kind) ([]report.Item, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, apiError(http.StatusBadRequest, fmt.Errorf("reading the query: %w", err))
	}
	like, as, why := query.Get("like"), query["as"], false
	if said := query.Get("why"); said != "" {
		if why, err = strconv.ParseBool(said); err != nil {
			return nil, apiError(http.StatusBadRequest, fmt.Errorf("why: %q is not one of 1, 0", said))
		}
	}
	if as == nil && !why {
		return report.Items(s, k, like)
	}
	return report.ItemsAs(r.Context(), s, k, like, as, why)
}

func (API) item(w http.ResponseWriter, s report.Source, k revision.Kind, name string) error {
	item, err := report.ItemNamed(s, k, name)
	if err != nil {
		return refused(err)
	}
	w.Header().Set("Content-Type", "application/json")
	_, err = w.Write(item.Raw)
	return err
}

func (API) refresh(w http.ResponseWriter, r *http.Request, s report.Source) error {
	if err := allow(r, http.MethodPost); err != nil {
		return err
	}
	kinds := revision.Kinds()
	if name := r.URL.Query().Get("kind"); name != "" {
		k, err := report.Kind(name)
		if err != nil {
			return refused(err)
		}
		kinds = []revision.Kind{k}
	}
	ctx, cancel := context.WithTimeout(r.Context(), maxRefreshWait)
	defer cancel()
	results, err := report.Refresh(ctx, s, kinds)
	if err != nil {
		return refused(err)
	}
	return writeJSON(w, http.StatusOK, results)
}

func (API) purge(w http.ResponseWriter, r *http.Request, s report.Source) error {
	if err := allow(r, http.MethodPost); err != nil {
		return err
	}
	s.Purge()
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (API) restart(w http.ResponseWriter, r *http.Request, s report.Source) error {
	if err := allow(r, http.MethodPost); err != nil {
		return err
	}
	restarted, err := report.Restart(s)
	if err != nil {
		return refused(err)
	}
	return writeJSON(w, http.StatusOK, restarted)
}

func allow(r *http.Request, method string) error {
	if r.Method == method {
		return nil
	}
	return apiError(http.StatusMethodNotAllowed, fmt.Errorf("method %s is not allowed here, only %s", r.Method, method))
}

// statusOf are the HTTP statuses that tell why there is no answer.
var statusOf = map[report.Reason]int{
	report.NotFound:    http.StatusNotFound,
	report.Ambiguous:   http.StatusConflict,
	report.Invalid:     http.StatusBadRequest,
	report.Unavailable: http.StatusServiceUnavailable,
}

// refused makes an error of the admin API of why a question has no answer.
func refused(err error) error {
	status := http.StatusInternalServerError
	if _, is := errors.AsType[caddy.APIError](err); is {
		return err
	}
	if e, ok := errors.AsType[*report.Error](err); ok {
		status = statusOf[e.Reason]
	}
	return apiError(status, err)
}

func apiError(status int, err error) error { return caddy.APIError{HTTPStatus: status, Err: err} }

func writeJSON(w http.ResponseWriter, status int, value any) error {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	return json.NewEncoder(w).Encode(value)
}

// Interface guards
var _ caddy.AdminRouter = (*API)(nil)
