package probe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/outage"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/redirect"
)

// Trouble is why a server cannot be used, and what to do.
type Trouble struct {
	// Code is one word for programs.
	Code string `json:"code"`
	// Text is one sentence for people, without a full stop.
	Text string `json:"text"`

	short string // for a single list, a few words; "" if the error has them itself
}

// unreachable reports whether err says that no HTTP answer came for reasons
// that have nothing to do with what was asked.
func unreachable(err error) bool {
	var network *net.OpError
	var name *net.DNSError
	_, refused := errors.AsType[*refusedError](err)
	return !refused && (errors.As(err, &network) && network.Op == "dial" || errors.As(err, &name) || outage.IsTLS(err))
}

// troubleOf puts an error into words, from what it says alone.
func (x *examination) troubleOf(err error) *Trouble {
	if refused, ok := errors.AsType[*refusedError](err); ok {
		return x.refusal(refused)
	}
	if other, ok := errors.AsType[*otherRevisionError](err); ok {
		return &Trouble{Code: "revision", Text: fmt.Sprintf("%s does not speak MCP %s but %s, %s: check the other era, or update the server",
			x.URL, other.wanted, some(other.versions, len(other.versions)), "of which the cache keeps no lists and passes all on")}
	}
	u, _ := url.Parse(x.URL) // it has been parsed before
	switch {
	case outage.IsPlainHTTP(err):
		return &Trouble{Code: "tls", Text: fmt.Sprintf("%s speaks plain HTTP, not TLS: write http:// instead of https://", u.Host)}
	case outage.IsTLS(err):
		return tlsTrouble(u.Host, err)
	case errors.Is(err, syscall.ECONNREFUSED):
		return &Trouble{Code: "refused", Text: fmt.Sprintf("nothing listens at %s: start the server, or correct host and port", u.Host)}
	case errors.Is(err, errOutOfTime), errors.Is(err, context.Canceled):
		return &Trouble{Code: "timeout", Text: fmt.Sprintf("%s was too slow: see whether the server hangs", x.URL), short: "time ran out"}
	case errors.Is(err, context.DeadlineExceeded):
		return &Trouble{Code: "timeout", Text: fmt.Sprintf("%s did not answer within %s: see whether the server hangs, or give it more with --timeout", x.URL, x.Timeout)}
	case errors.Is(err, errTooLarge), errors.Is(err, message.ErrListTooLarge):
		return &Trouble{Code: "protocol", Text: x.URL + " answers with more bytes than the cache takes (max_list)", short: fmt.Sprintf("the cache takes %s of a list at most (max_list)", size(x.MaxList))}
	case errors.Is(err, message.ErrTooManyPages):
		return &Trouble{Code: "protocol", Text: x.URL + " gives endless pages", short: fmt.Sprintf("the cache takes %d pages of a list at most (max_pages)", x.MaxPages)}
	case errors.Is(err, message.ErrInvalid), errors.Is(err, message.ErrAmbiguous),
		errors.Is(err, message.ErrNotComplete), errors.Is(err, message.ErrCursorCycle), errors.Is(err, errNoAnswer):
		return &Trouble{Code: "protocol", Text: fmt.Sprintf("%s speaks MCP, but not as the cache has to understand it (%s): the server needs a correction", x.URL, clipped(err.Error(), maxReason))}
	}
	return x.networkTrouble(u, err)
}

func (x *examination) networkTrouble(u *url.URL, err error) *Trouble {
	if name, ok := errors.AsType[*net.DNSError](err); ok {
		return &Trouble{Code: "name", Text: fmt.Sprintf("the host name %s cannot be found (%s): correct it", shown(name.Name), shown(name.Err))}
	}
	if network, ok := errors.AsType[net.Error](err); ok && network.Timeout() {
		return &Trouble{Code: "timeout", Text: fmt.Sprintf("%s cannot be reached in time: check the address, and whether a firewall is between", u.Host)}
	}
	switch {
	case outage.IsCut(err):
		return &Trouble{Code: "cut", Text: fmt.Sprintf("%s closed the connection in the middle of an answer: look into the server's log; if it speaks TLS, write https://", u.Host)}
	case outage.IsNotHTTP(err):
		return &Trouble{Code: "not_http", Text: fmt.Sprintf("what listens at %s does not speak HTTP: correct the port", u.Host)}
	}
	return &Trouble{Code: "network", Text: fmt.Sprintf("%s cannot be asked: %s", x.URL, clipped(cmp.Or(outage.Words(err, x.Timeout), outage.Cause(err)), maxReason))}
}

func tlsTrouble(host string, err error) *Trouble {
	why, do, certificate := outage.Certificate(err)
	if !certificate {
		return &Trouble{Code: "tls", Text: fmt.Sprintf("no TLS connection to %s (%s): if it speaks plain HTTP, write http://", host, shown(why))}
	}
	return &Trouble{Code: "tls", Text: fmt.Sprintf("the certificate of %s is not accepted, because %s: %s", host, shown(why), do)}
}

// refusal puts an answer that is no result into words.
func (x *examination) refusal(e *refusedError) *Trouble {
	a := e.answer
	t := &Trouble{short: fmt.Sprintf("HTTP %d", a.status)}
	switch {
	case a.rpc != nil:
		t.short = fmt.Sprintf("error %d: %s", a.rpc.Code, clipped(a.rpc.Message, maxReason))
	case a.status == http.StatusOK && a.coding != "":
		t.short = "it answers in " + shown(a.coding) + ", which nobody asked for"
	case a.status == http.StatusOK && a.unread != nil && message.MayBeRPC(a.head):
		t.short = "its answer cannot be read, " + clipped(outage.Cause(a.unread), maxReason)
	case a.status == http.StatusOK:
		t.short = "it answers with " + x.content(a)
	}
	advice := "look into the server's log"
	if e.mayBeSeat() {
		advice += "; a server that takes one session at a time refuses so while a client has it"
	}
	switch {
	case a.status == http.StatusUnauthorized:
		t.Code, t.Text = "unauthorized", x.unauthorized(a)
	case a.status == http.StatusForbidden:
		t.Code = "forbidden"
		t.Text = x.URL + " refuses this caller (403): give the credentials of one that it lets in with --header \"Authorization: Bearer …\"; one that goes by names may let in another --header \"User-Agent: …\""
	case a.status == http.StatusMisdirectedRequest:
		t.Code, t.Text = "host", x.misdirected()
	case a.status >= 300 && a.status < 400:
		t.Code, t.Text = "redirect", x.redirect(a)
	case a.status == http.StatusTooManyRequests:
		t.Code, t.Text = "busy", x.URL+" has been asked too often (429): try again later"
	case a.status >= 500:
		t.Code = "server_error"
		t.Text = fmt.Sprintf("%s fails (%s): %s", x.URL, t.short, advice)
	case a.rpc != nil && len(a.rpc.Supported) > 0:
		t.Code = "revision"
		t.Text = fmt.Sprintf("%s speaks other revisions than asked for: %s", x.URL, some(a.rpc.Supported, len(a.rpc.Supported)))
	case a.rpc != nil:
		t.Code = "error"
		t.Text = fmt.Sprintf("%s refuses %s (%s): %s", x.URL, e.method, t.short, advice)
	case strings.Contains(string(a.head), "HTTPS"):
		t.Code, t.Text = "tls", x.URL+" speaks TLS: write https:// instead of http://"
	case a.coding != "":
		t.Code = "protocol"
		t.Text = fmt.Sprintf("%s answers in %s, which nobody asked for and the cache does not read: have it answer without a content coding", x.URL, shown(a.coding))
	case a.status < 300 && a.unread != nil && message.MayBeRPC(a.head):
		t.Code = "protocol"
		t.Text = fmt.Sprintf("%s speaks MCP, but its answer to %s cannot be read (%s): the server needs a correction", x.URL, e.method, clipped(outage.Cause(a.unread), maxReason))
	case a.status < 300:
		t.Code = "not_mcp"
		t.Text = fmt.Sprintf("%s is no MCP server, it answers with %s: use the URL of the MCP endpoint, which often ends in /mcp", x.URL, x.content(a))
	default:
		t.Code = "wrong_path"
		t.Text = fmt.Sprintf("there is no MCP server at %s (HTTP %d): use the URL of the MCP endpoint, which often ends in /mcp", x.URL, a.status)
	}
	return t
}

func (x *examination) unauthorized(a *answer) string {
	if x.report.Access.Credentials {
		return x.URL + " does not accept these credentials (401): give others, such as a token that has not expired and is for this server"
	}
	challenge := strings.Join(a.header.Values("WWW-Authenticate"), ", ")
	if scheme, _, _ := strings.Cut(challenge, " "); scheme != "" && !strings.EqualFold(scheme, "Bearer") {
		return fmt.Sprintf("%s asks for credentials (401, %s): give them with --header \"Authorization: %s …\"", x.URL, shown(scheme), shown(scheme))
	}
	text := x.URL + " asks for credentials (401): give a token with --header \"Authorization: Bearer …\""
	if found := redirect.Metadata.FindStringSubmatch(challenge); found != nil {
		named, err := url.Parse(found[2])
		checked, _ := url.Parse(x.URL) // it has been parsed before
		if err == nil && named.Host != checked.Host && redirect.IsInternal(named.Host) {
			text += fmt.Sprintf("; it leads clients to %s to find out where to log in, which not all may reach: configure it with its public address", shown(named.Host))
		}
	}
	return text
}

// misdirected says what to do about a server that answers to another Host.
func (x *examination) misdirected() string {
	u, _ := url.Parse(x.URL) // it has been parsed before
	return fmt.Sprintf("%s does not answer to the Host %s (421): check it at its public address; in front of it, name that Host with header_up Host in reverse_proxy", x.URL, u.Host)
}

// redirect says where a redirect leads, without what may be secret.
func (x *examination) redirect(a *answer) string {
	location := a.header.Get("Location")
	base, err := url.Parse(x.URL)
	if err != nil || location == "" {
		return fmt.Sprintf("%s redirects (%d) to nowhere: use the URL of the MCP endpoint", x.URL, a.status)
	}
	to, err := base.Parse(location)
	if err != nil {
		return fmt.Sprintf("%s redirects (%d) to what is no URL: use the URL of the MCP endpoint", x.URL, a.status)
	}
	to.User, to.RawQuery, to.Fragment = nil, "", ""
	text := fmt.Sprintf("%s redirects (%d) to %s, which the cache does not follow: use that URL", x.URL, a.status, shown(to.String()))
	if to.Hostname() != base.Hostname() {
		text += ", or, if that is a page to sign in at, give credentials with --header"
	}
	return text
}

// content says what an answer is that is no MCP.
func (x *examination) content(a *answer) string {
	switch {
	case a.media == "text/html":
		return "a web page"
	case len(a.head) == 0:
		return "nothing"
	}
	return orNone(a.media)
}
